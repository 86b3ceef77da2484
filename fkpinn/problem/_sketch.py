"""Where a problem lives, as curves and numbers that can be drawn."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision, quickly_compiled
from .._streams import Stream
from ..domain import AbstractDomain, Segment
from ..report import NoPicture
from ._measure import Uniform
from ._problem import Problem

_NODES = 128  # of the grid along an axis of a plane
_LINE = 2001  # of a line
_DRAWN = 200  # places that follow the measure
_FINE = 240  # points of an outline along the length of the domain
_ROOM = 0.06  # around the domain, in its sides
_ASIDE = 2e-3  # of the diameter: where it is asked what lies on both sides of an outline


class Sketch(NamedTuple):
    """A domain in one or two dimensions.

    `depth` is the signed distance on the grid of `axes`, its rows along the second. `walls` are
    boundary parts by name with their places, one per row; rows of NaN lie between pieces. `wanted`
    are places that follow the measure, none where that is uniform.
    """

    axes: list[np.ndarray]
    depth: np.ndarray
    walls: list[tuple[str, np.ndarray]]
    wanted: np.ndarray


def sketch(problem: Problem) -> Sketch:
    """What can be drawn of the domain; raises `NoPicture` where nothing can.

    Args:
        problem: the boundary value problem.
    """
    domain = problem.domain.at(problem.layout.middle())
    if problem.dim > 2:
        raise NoPicture(f"a domain in dimension {problem.dim} is not drawn.")
    lower, upper = domain.bounding_box()
    if not domain.is_bounded():
        lower, upper = problem.box()
    if not np.all(np.isfinite([lower, upper])):
        raise NoPicture("the domain is unbounded, and the measure has no bounds either.")
    room = _ROOM * (upper - lower) if domain.parts else np.zeros(problem.dim)
    n = _NODES if problem.dim == 2 else _LINE
    axes = [np.linspace(a, b, n) for a, b in zip(lower - room, upper + room, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="xy"), axis=-1).reshape(-1, problem.dim)
    depth = _depth(domain, grid).reshape((n,) * problem.dim)
    walls = _outline(domain) if problem.dim == 2 else _ends(domain, axes[0], depth)
    return Sketch(axes, depth, walls, _wanted(problem))


def _wanted(problem: Problem) -> np.ndarray:
    """Places where the answer is wanted."""
    if isinstance(problem.measure, Uniform):
        return np.zeros((0, problem.dim))
    coords = problem.measure.n_coords(problem.region)
    u = (Stream(0) / "sketch").generator.random((_DRAWN, coords))
    places, kept = _drawn(problem, jnp.asarray(u, float))
    return np.asarray(places, np.float64)[np.asarray(kept)]


@quickly_compiled
def _drawn(problem: Problem, u: Float[Array, "n q"]) -> tuple[Array, Array]:
    drawn = jax.vmap(lambda one: problem.measure.draw(problem.region, one))(u)
    return problem.layout.space(drawn.point), drawn.keep


def _depth(domain: AbstractDomain, places: np.ndarray) -> np.ndarray:
    with precision("float64"):  # small next to thin gaps
        return np.asarray(_distances(domain, jnp.asarray(places)))


@quickly_compiled
def _distances(domain: AbstractDomain, x: Float[Array, "n d"]) -> Array:
    return jax.vmap(domain.signed_distance)(x)


@quickly_compiled
def _nearest(domain: AbstractDomain, x: Float[Array, "n d"]) -> tuple[Array, Array]:
    return jax.vmap(domain.project)(x), jax.vmap(domain.part_at)(x)


def _ends(domain: AbstractDomain, line: np.ndarray, depth: np.ndarray) -> list[Any]:
    """Where a line leaves a set."""
    inside = depth < 0
    crossed = np.flatnonzero(inside[1:] != inside[:-1])
    if not len(crossed):
        return []
    with precision("float64"):
        near = jnp.asarray(0.5 * (line[crossed] + line[crossed + 1])[:, None])
        places, parts = (np.asarray(found) for found in _nearest(domain, near))
    return [(domain.parts[k], place[None]) for k, place in zip(parts, places, strict=True)]


def _outline(domain: AbstractDomain) -> list[tuple[str, np.ndarray]]:
    """Pieces of the outline that have the set on one side, and only there."""
    reach, pieces = domain.diameter(), []
    reach = reach if np.isfinite(reach) else 1.0
    for piece in domain.outline():
        if isinstance(piece, Segment):
            start, end = np.asarray(piece.start, float), np.asarray(piece.end, float)
            length = float(np.linalg.norm(end - start))
            share = np.linspace(0.0, 1.0, _samples(length, reach))[:, None]
            places = start + share * (end - start)
            across = np.array([start[1] - end[1], end[0] - start[0]]) / (length or 1.0)
            normals = np.broadcast_to(across, places.shape)
        else:
            angle = np.linspace(0.0, 2 * np.pi, _samples(2 * np.pi * piece.radius, reach) + 24)
            normals = np.stack([np.cos(angle), np.sin(angle)], axis=1)
            places = np.asarray(piece.center, float) + piece.radius * normals
        pieces.append((piece.part, places, normals))
    if not pieces:
        return []
    places = np.concatenate([p for _, p, _ in pieces])
    aside = _ASIDE * reach * np.concatenate([n for *_, n in pieces])
    sides = _depth(domain, np.concatenate([places + aside, places - aside])).reshape(2, -1) < 0
    seen = np.where((sides[0] != sides[1])[:, None], places, np.nan)
    found: dict[str, list[np.ndarray]] = {}
    cuts = np.cumsum([len(p) for _, p, _ in pieces])[:-1]
    for (part, *_), own in zip(pieces, np.split(seen, cuts), strict=True):
        found.setdefault(part, []).extend([own, np.full((1, 2), np.nan)])
    return [(part, np.concatenate(found[part])) for part in domain.parts if part in found]


def _samples(length: float, reach: float) -> int:
    return int(np.clip(_FINE * length / reach, 2, 4 * _FINE)) + 1
