"""Gradients of wrong candidates, corrected by paths, beside those of closed forms."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import fkpinn as fk
from fkpinn._compute import precision
from fkpinn._streams import Stream
from fkpinn.evaluate import gradient_with_interval
from fkpinn.problem import Problem, residual
from fkpinn.sampling import sample_interior

from .._common import say, surroundings

SIZES = (0.3, 0.03, 0.003)  # of what is wrong with candidates
_LEVEL, _SEED = 0.95, 0
_NEAR = 0.1  # way to a wall over the size of the domain, of half of the points


class _Case(NamedTuple):
    problem: Problem
    exact: Callable[..., Any]  # of one point
    wrong: Callable[..., Any]


def _disk() -> _Case:
    """Poisson's equation, by walks on spheres."""
    exact = lambda x: jnp.sin(2.0 * x[0]) * jnp.exp(x[1])
    source = lambda x: 1.5 * exact(x)
    problem = fk.Problem(fk.Ball([0.0, 0.0], 1.0), source=source, boundary=exact)
    return _Case(problem, exact, lambda x: jnp.sin(3.0 * x[0] + 1.0) * jnp.cos(2.0 * x[1]))


def _box() -> _Case:
    """Drift, reaction and noise of two sizes in a square, by time steps."""
    exact = lambda x: jnp.sin(2.0 * x[0]) * jnp.exp(x[1])
    drift = lambda x: jnp.array([1.0, 0.0], x.dtype) - 2.0 * x
    how: dict[str, Any] = {"drift": drift, "diffusion": np.array([1.0, 0.7]), "reaction": 0.5}
    square = fk.Box([-1.0, -1.0], [1.0, 1.0])
    plain = fk.Problem(square, boundary=exact, **how)
    source = lambda x: -residual(plain, exact, x)
    problem = fk.Problem(square, boundary=exact, source=source, **how)
    return _Case(problem, exact, lambda x: jnp.sin(3.0 * x[0] + 1.0) * jnp.cos(2.0 * x[1]))


def _line() -> _Case:
    """The heat equation on an interval."""
    end = 0.5
    wave = lambda x: jnp.sin(np.pi * x[0])
    exact = lambda z: jnp.exp(-0.5 * np.pi**2 * (end - z[0])) * jnp.sin(np.pi * z[1])
    problem = fk.Problem(fk.Interval(0.0, 1.0), horizon=end, terminal=wave)
    return _Case(problem, exact, lambda z: jnp.sin(5.0 * z[1] + 1.0) * jnp.cos(2.0 * z[0]))


CASES = {"disk": _disk, "box-drift": _box, "heat-line": _line}


class _Off(eqx.Module):
    """The closed form, wrong by a wave; paths share what is compiled for all sizes."""

    exact: Callable[..., Any]
    wrong: Callable[..., Any]
    size: jax.Array

    def __call__(self, z: jax.Array) -> jax.Array:
        return self.exact(z) + self.size * self.wrong(z)


def run(
    problems: Sequence[str] = tuple(CASES), n_points: int = 1000, n_paths: int = 1000
) -> dict[str, Any]:
    """How often 95 % intervals hold the components of the true gradient.

    Args:
        problems: which of `CASES`.
        n_points: points of each, shared by candidates of several sizes of error.
        n_paths: paths a point.
    """
    unknown = [name for name in problems if name not in CASES]
    if unknown:
        raise ValueError(f"`--problems` must be some of {tuple(CASES)}; got {unknown}.")
    if n_points < 2 * len(SIZES) or n_paths < 1:
        raise ValueError(
            f"`--points` must be at least {2 * len(SIZES)} and `--paths` positive; got {n_points}, "
            f"{n_paths}."
        )
    records = [_one(name, n_points, n_paths) for name in problems]
    held, components = (sum(r[key] for r in records) for key in ("held", "components"))
    return {
        "benchmark": "slopes", "level": _LEVEL, "seed": _SEED, "covered": held / components,
        "components": components, "records": records, **surroundings(),
    }  # fmt: skip


def _one(name: str, n_points: int, n_paths: int) -> dict[str, Any]:
    case, stream = CASES[name](), Stream(_SEED) / "bench slopes" / name
    points, near = _points(case.problem, n_points, stream)
    with precision("float64"):
        slope = lambda f: np.asarray(jax.vmap(jax.grad(f))(jnp.asarray(points)))
        truth, lacking = (case.problem.layout.space(slope(f)) for f in (case.exact, case.wrong))
    rows, began = [], time.perf_counter()
    for size, own in zip(SIZES, np.array_split(np.arange(n_points), len(SIZES)), strict=True):
        say(f"slopes: {name}, {len(own)} points x {n_paths} paths, wrong by {size:g}")
        with precision("float64"):
            candidate = _Off(case.exact, case.wrong, jnp.asarray(size))
        found = gradient_with_interval(
            case.problem, candidate, points[own], n_paths=n_paths, level=_LEVEL,
            seed=(stream / f"{size:g}").seed,
        )  # fmt: skip
        inside = (found.low <= truth[own]) & (truth[own] <= found.high)
        score = (found.value - truth[own]) / found.std_error
        wall = near[own]
        rows.append(
            {
                "size": size,
                "points": len(own),
                "covered": float(np.mean(inside)),
                "covered_near_walls": float(np.mean(inside[wall])),
                "held": int(np.sum(inside)),
                "components": int(inside.size),
                "mean_score": float(np.mean(score)),
                "rms_score": float(np.sqrt(np.mean(score**2))),
                "noise_over_lacking": float(
                    np.median(found.std_error) / size / np.sqrt(np.mean(lacking**2))
                ),
                "n_paths": found.n_paths,
            }
        )
        say(f"slopes: {rows[-1]['covered']:.1%} covered, {rows[-1]['covered_near_walls']:.1%} near")
    held, components = (sum(row[key] for row in rows) for key in ("held", "components"))
    return {
        "problem": name, "n_points": n_points, "covered": held / components, "held": held,
        "components": components, "sizes": rows, "seconds": time.perf_counter() - began,
    }  # fmt: skip


def _points(problem: Problem, n: int, stream: Stream) -> tuple[np.ndarray, np.ndarray]:
    """Points inside, every other one brought close to a wall, at distances of all scales."""
    layout, domain = problem.layout, problem.domain
    with precision("float64"):
        points = sample_interior(problem, n, key=(stream / "points").key)
        near = np.arange(n) % 2 == 0
        x = layout.space(points)
        foot = jax.vmap(domain.project)(x)
        inward = x - foot
        inward = inward / jnp.linalg.norm(inward, axis=1, keepdims=True)
        way = _NEAR * domain.diameter() * 10.0 ** (-2.0 * (stream / "ways").generator.random(n))
        close = foot + jnp.asarray(way)[:, None] * inward
        inside = np.asarray(jax.vmap(domain.signed_distance)(close)) < 0
        near &= inside
        moved = layout.placed(layout.ahead(points), jnp.where(near[:, None], close, x))
        return np.asarray(moved, np.float64), near
