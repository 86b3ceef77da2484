"""A release of the compiler that returns wrong numbers, and how it is kept from doing so."""

import functools
import importlib.metadata
import os

_RELEASE = "0.10.2"  # of jaxlib; 0.10.0, 0.10.1, 0.11 and 0.12 are not affected
_SWITCH = "--xla_cpu_experimental_ynn_fusion_type"
_OFF = f"{_SWITCH}=-LIBRARY_FUSION_TYPE_REDUCE"  # others, products for example, stay
_ROWS, _COORDS, _UNITS = 1024, 10, 24  # small enough to be quick, large enough to go wrong


def avoid_wrong_sums() -> None:
    """Switch off the part of jaxlib 0.10.2 that miscompiles sums; before jax starts, or in vain.

    On CPUs, in single precision and large batches, a sum that is spread over another axis comes out
    wrong: the slopes of a network that reads squared distances, for example.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if _SWITCH not in flags and _is_affected():
        os.environ["XLA_FLAGS"] = f"{flags} {_OFF}".lstrip()


@functools.cache
def refuse_wrong_sums() -> None:
    """Raise if such a sum is wrong here; tried once a process, with that release only."""
    if _is_affected() and not _sums_are_right():
        raise ImportError(
            f"jaxlib {_RELEASE} returns wrong numbers on CPUs, and it had started before fkpinn "
            f"could switch off the part that is broken. Import fkpinn before anything is computed "
            f"with jax, set the environment variable XLA_FLAGS to `{_OFF}`, or install another "
            f"release: pip install 'jax!={_RELEASE}'."
        )


def _is_affected() -> bool:
    try:
        return importlib.metadata.version("jaxlib") == _RELEASE
    except importlib.metadata.PackageNotFoundError:
        return False


def _sums_are_right() -> bool:
    """Whether slopes of a sum of squares, spread over units, are what they should be."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    one = np.float32(1.0)
    x = np.linspace(-one, one, _ROWS * _COORDS, dtype=np.float32).reshape(_ROWS, _COORDS)
    units = np.linspace(one, 2 * one, _UNITS, dtype=np.float32)

    def slopes(z):
        return jnp.sum(jnp.asarray(np.eye(_COORDS, dtype=np.float32)) * z[None], axis=1)

    with jax.ensure_compile_time_eval():
        found = jax.jit(jax.vmap(lambda z: slopes(z)[:, None] * jnp.asarray(units)[None]))(x)
    return bool(np.allclose(np.asarray(found), x[:, :, None] * units, rtol=1e-4, atol=1e-5))
