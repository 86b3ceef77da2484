import contextlib
import gc
import importlib.metadata
import itertools
import os
import threading
from pathlib import Path

# Two xdist workers on two cores: one thread each, or they fight. Read when jax starts.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("NPROC", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# Most of the time of these tests is compiling; the first three halve it. An unknown flag is fatal,
# and the first is known up to jaxlib 0.10.
os.environ.setdefault(
    "XLA_FLAGS",
    (
        "--xla_cpu_use_fusion_emitters=false "
        if importlib.metadata.version("jaxlib").startswith("0.10.")
        else ""
    )
    + "--xla_cpu_parallel_codegen_split_count=1 --xla_backend_optimization_level=0"
    + (" --xla_cpu_multi_thread_eigen=false" if "PYTEST_XDIST_WORKER" in os.environ else ""),
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "agg")
# Tests compile the same small functions again and again, in two processes: share the results.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.02")

import jax
import jax.random as jr
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# Every shape and type in every signature is checked while the tests run. `import fkpinn` must
# come after this; the package loads its parts lazily, so each of them passes through the hook.
install_import_hook("fkpinn", "beartype.beartype")


def _keep_contexts():
    """jax makes a context of MLIR for every program: a fifth of the time of these tests.

    One for each thread will do, but for programs that are compiled while another one is translated.
    It is no public part of jax; where it is not found, nothing is lost but time.
    """
    try:
        from jax._src.interpreters import mlir

        make, context = mlir.make_ir_context, mlir.ir.Context
    except (ImportError, AttributeError):
        return
    own = threading.local()

    def kept():
        with contextlib.suppress(ValueError):  # there is none
            if context.current is not None:
                return make()
        if not hasattr(own, "context"):
            own.context = make()
        return own.context

    mlir.make_ir_context = kept


_keep_contexts()

# Compiled functions make millions of objects that stay: looking through them takes long.
gc.set_threshold(50_000, 20, 100)


@pytest.fixture
def getkey():
    """A function that returns another key at each call, the same ones in every run."""
    counter = itertools.count()
    return lambda: jr.fold_in(jr.key(20250), next(counter))


@pytest.fixture(autouse=True, scope="module")
def _few_maps():
    """Every compiled function keeps a few maps of memory, of which a process has 65,530."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_bytes().splitlines()) > 30_000:
        jax.clear_caches()


FIRST = (  # the longest, so that none is last
    "test_solve", "test_python_api", "test_docs_code", "test_sampling", "test_spheres",
    "test_certify", "test_estimate", "test_bench", "test_experiments", "test_fem", "test_variance",
    "test_hard", "test_start", "test_lanes", "test_optimizers", "test_random", "test_coverage",
    "test_operator", "test_visits", "test_fit", "test_developing", "test_problem",
)  # fmt: skip


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests of a file share what they compile and train, so one worker of xdist has them all."""
    items.sort(key=lambda item: item.path.stem not in FIRST)
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}/{item.path.stem}"))
    yield
    try:  # xdist writes the group to where pytest 9.2 no longer looks
        from _pytest.nodeid import coerce_node_id
    except ImportError:
        return
    for item in items:
        wanted = vars(item).get("_nodeid")
        if wanted and wanted != item.nodeid:
            item._id = coerce_node_id(wanted)
