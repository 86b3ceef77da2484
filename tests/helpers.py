"""Cases that the tests of several folders share."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from fkpinn._compute import Compute, Lanes, current
from fkpinn.domain import AbstractDomain, Ball, Box, HalfSpace, Interval, Polygon, RegularPolygon
from fkpinn.problem import catalogue
from fkpinn.sampling import sample_boundary, sample_interior


def lanes(*sizes: Any, **more: Any) -> Compute:
    """The device of the tests with these lanes for paths, as `Lanes` takes them."""
    return dataclasses.replace(current(), lanes=Lanes(*sizes, **more))


class Shape(NamedTuple):
    """A domain with its volume and areas where a formula exists."""

    name: str
    domain: AbstractDomain
    volume: float
    areas: dict[str, float]
    exact: bool  # whether volume() and areas() are exact, or quadrature


L_SHAPE = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
_SEGMENT = float(np.arccos(0.5) - 0.5 * np.sqrt(0.75))  # unit disk beyond the line x = 1/2

primitives = [
    Shape(
        "interval", Interval(-1.0, 2.0, name=("left", "right")), 3.0, {"left": 1, "right": 1}, True
    ),
    Shape("square", Box([0, 0], [1, 2]), 2.0, {"outer": 6.0}, True),
    Shape(
        "box-faces",
        Box([0, 0, 0], [1, 2, 3], name=("a", "b", "c", "c", "d", "d")),
        6.0,
        {"a": 6.0, "b": 6.0, "c": 6.0, "d": 4.0},
        True,
    ),
    Shape("box-5d", Box([0] * 5, [1] * 5), 1.0, {"outer": 10.0}, True),
    Shape("disk", Ball([0.3, -0.2], 0.7), np.pi * 0.49, {"outer": 1.4 * np.pi}, True),
    Shape("ball", Ball([0, 0, 0], 2.0), 32 / 3 * np.pi, {"outer": 16 * np.pi}, True),
    Shape("ball-1d", Ball([1.0], 0.5), 1.0, {"outer": 2.0}, True),
    Shape("ball-6d", Ball([0] * 6, 1.0), np.pi**3 / 6, {"outer": np.pi**3}, True),
    Shape("hexagon", RegularPolygon(6, 2.0), 6 * 3**0.5, {"outer": 12.0}, True),
    Shape(
        "l-shape",
        Polygon(L_SHAPE, name=("outer", "outer", "inner", "inner", "outer", "outer")),
        3.0,
        {"outer": 6.0, "inner": 2.0},
        True,
    ),
]

combinations = [
    Shape(
        "box-minus-disks",
        Box([-1.5, -0.2], [1.2, 2.0])
        - Ball([-0.5582, 1.4417], 0.2, name="A")
        - Ball([0.6235, 0.0281], 0.2, name="B"),
        2.7 * 2.2 - 2 * np.pi * 0.04,
        {"outer": 9.8, "A": 0.4 * np.pi, "B": 0.4 * np.pi},
        True,
    ),
    Shape(
        "union",
        Box([0, 0], [1, 1]) | Ball([1, 1], 0.5, name="c"),
        1 + 0.75 * np.pi * 0.25,
        {"outer": 3.0, "c": 0.75 * np.pi},
        False,
    ),
    Shape(
        "apart",
        Ball([-2, 0], 1.0, name="left") | Ball([2, 0], 0.5, name="right"),
        1.25 * np.pi,
        {"left": 2 * np.pi, "right": np.pi},
        True,
    ),
    Shape(
        "cut-disk",
        Ball([0, 0], 1.0) & HalfSpace([2.0, 0], [0.5, 7.0], name="cut"),
        np.pi - _SEGMENT,
        {"outer": 2 * (np.pi - np.arccos(0.5)), "cut": 2 * 0.75**0.5},
        False,
    ),
    Shape(
        "notched-square",  # the notch shares two edges with the square
        Box([0, 0], [1, 1]) - Box([0.5, 0.5], [1, 1], name="notch"),
        0.75,
        {"outer": 3.0, "notch": 1.0},
        False,
    ),
    Shape(
        "half-ball",
        Ball([0, 0, 0], 1.0) - HalfSpace([0, 0, 1.0], [0, 0, 0], name="floor"),
        2 / 3 * np.pi,
        {"outer": 2 * np.pi, "floor": np.pi},
        False,
    ),
    Shape(
        "corner-of-planes",  # bounded only by half-spaces
        (HalfSpace([1.0, 0], [1, 0]) & HalfSpace([-1.0, 0], [0, 0]))
        & (HalfSpace([0, 1.0], [0, 2]) & HalfSpace([0, -1.0], [0, 0])),
        2.0,
        {"outer": 6.0},
        False,
    ),
    Shape(
        "pierced-polygon",
        Polygon(L_SHAPE) - (Ball([0.5, 0.5], 0.25, name="hole") & Box([0, 0], [2, 2])),
        3.0 - np.pi / 16,
        {"outer": 8.0, "hole": np.pi / 2},
        False,
    ),
]

shapes = primitives + combinations


def of_which_fast(cases: Any, *fast: Any) -> list[Any]:
    """All cases; those that are not named here say the same again, for the broad suite."""
    found = []
    for case in cases:
        one = case if isinstance(case, tuple) else (case,)
        values, marks = getattr(case, "values", one), [*getattr(case, "marks", ())]
        broad = values[0] not in fast and values not in fast
        found.append(pytest.param(*values, marks=marks + [pytest.mark.broad] * broad))
    return found


BROAD = ("box-faces", "ball-1d", "cut-disk", "notched-square")  # built as others are
SLOW = (
    "pierced-polygon",
    "box-minus-disks",
    "corner-of-planes",
    "half-ball",
    "square",
    "box-5d",
    "disk",
    "ball-6d",
    "hexagon",
    "apart",
    "box-50d",
    "committor",
    "star",
    "star-hole",
    "edge-of-hole",
    "round",
    "reflex-edges",
    "hexagon-edges",
    "box-hole",
    "straight-angle",
    "squares",
)  # others are built alike


def marks(name: str) -> list[pytest.MarkDecorator]:
    """One worker a shape: it compiles each function once."""
    size = [pytest.mark.slow] * (name in SLOW) + [pytest.mark.broad] * (name in BROAD)
    return [pytest.mark.xdist_group(name), *size]


every_shape = pytest.mark.parametrize(
    "shape", [pytest.param(s, marks=marks(s.name), id=s.name) for s in shapes]
)


def shape(name: str) -> Shape:
    """The shape of that name."""
    return next(s for s in shapes if s.name == name)


class Case(NamedTuple):
    """A problem with a closed-form solution."""

    name: str
    problem: Any
    exact: Any


EXACT_NAMES = (
    "poisson", "heat2d-ms", "poisson-5d", "laplace-10d", "poisson-50d", "variable-diffusion",
    "robin", "exit-ball-3d", "exit-ball-10d", "ornstein-uhlenbeck",
)  # fmt: skip

# in more or other dimensions, and built as others are
ALIKE = ("poisson-5d", "laplace-10d", "poisson-50d", "exit-ball-3d", "exit-ball-10d")


def names(*more: str) -> list[Any]:
    """Problems of the catalogue for a test of each; those built alike are slow ones."""
    slow = lambda name: [pytest.mark.slow] if name in ALIKE else []
    return [pytest.param(name, marks=slow(name)) for name in (*EXACT_NAMES, *more)]


def case(name: str) -> Case:
    """The catalogue problem of that name, which must have a closed form."""
    entry = catalogue(name)
    assert entry.exact is not None
    return Case(name, entry.problem, entry.exact)


def at(function, points):
    """A one-point function at every row."""
    return jax.jit(jax.vmap(function))(points)


@functools.partial(jax.jit, static_argnums=0)
def _distances(domain, points):
    return jax.vmap(domain.signed_distance)(points)


def distances(domain: AbstractDomain, points: Any, chunk: int = 40_000) -> np.ndarray:
    """Signed distances of any number of points; compiled once for a domain."""
    n_chunks = -(-len(points) // chunk)
    filled = np.resize(points, (n_chunks, chunk, domain.dim))
    return np.concatenate([_distances(domain, jnp.asarray(x)) for x in filled])[: len(points)]


@functools.partial(jax.jit, static_argnums=(0, 1))
def _inside(where, n, key):
    return sample_interior(where, n, key=key)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _on_boundary(where, n, key):
    return sample_boundary(where, n, key=key)


def inside(domain: AbstractDomain, n: int = 40_000, seed: int = 0) -> jax.Array:
    """Random interior points; compiled once for a domain and a number."""
    return _inside(domain, n, jr.key(seed))


def on_boundary(domain: AbstractDomain, n: int = 30_000, seed: int = 0):
    """Random boundary points; compiled once for a domain and a number."""
    return _on_boundary(domain, n, jr.key(seed))


def around(domain: AbstractDomain, n: int, seed: int = 0) -> jax.Array:
    """Random points in and around a domain."""
    lower, upper = domain.bounding_box()
    pad = 0.3 * (upper - lower)
    u = jr.uniform(jr.key(seed), (n, domain.dim))
    return jnp.asarray(lower - pad)[None] + u * jnp.asarray(upper - lower + 2 * pad)[None]
