"""Shapes that cannot be: each is refused with a message that names the argument."""

import jax.numpy as jnp
import pytest

from fkpinn.domain import Ball, Box, HalfSpace, Interval, Polygon, RegularPolygon

refused = [
    (lambda: Ball([0, 0], -1.0), ValueError, r"`Ball\(radius=...\)` must be positive; got -1.0"),
    (lambda: Ball([0, 0], 0.0), ValueError, r"must be positive"),
    (lambda: Ball([0, float("nan")], 1.0), ValueError, r"`Ball\(center=...\)` must be finite"),
    (lambda: Ball([], 1.0), ValueError, r"at least one coordinate"),
    (lambda: Ball([[0, 0]], 1.0), ValueError, r"`Ball\(center=...\)` must have shape \(any\)"),
    (lambda: Ball("ab", 1.0), TypeError, r"`Ball\(center=...\)` must be real numbers"),
    (lambda: Ball([0, 0], 1.0, name=3), TypeError, r"`Ball\(name=...\)` must be a string"),
    (lambda: Ball([0, 0], 1.0, name=""), ValueError, r"must not contain an empty name"),
    (lambda: Box([0, 0], [1, 0]), ValueError, r"must have lower < upper on each axis"),
    (lambda: Box([], []), ValueError, r"`Box\(lower=...\)` must have at least one"),
    (lambda: Box([0, 0], [1, 1, 1]), ValueError, r"`Box\(upper=...\)` must have shape \(2\)"),
    (lambda: Box([0, 0], [1, 1], name=("a", "b")), ValueError, r"one name or 4 names"),
    (lambda: Interval(1, 0), ValueError, r"`Interval\(lower=..., upper=...\)`"),
    (lambda: HalfSpace([0, 0], [0, 0]), ValueError, r"`HalfSpace\(normal=...\)` must not be zero"),
    (lambda: Polygon([(0, 0), (1, 0)]), ValueError, r"at least 3 vertices; got 2"),
    (lambda: Polygon([(0, 0), (1, 1), (1, 0), (0, 1)]), ValueError, r"cross itself; edges 0 and 2"),
    (lambda: Polygon([(0, 0), (1, 0), (1, 1), (0, 0)]), ValueError, r"must not repeat a vertex"),
    (lambda: Polygon([(0, 0), (2, 0), (1, 0), (1, 1)]), ValueError, r"must not cross itself"),
    (lambda: Polygon([(0, 0), (4, 0), (4, 1), (2, 0), (0, 1)]), ValueError, r"cross itself"),
    (lambda: Polygon([(0, 0), (1, 0), (2, 0)]), ValueError, r"must not cross itself"),
    (lambda: RegularPolygon(2, 1.0), ValueError, r"`RegularPolygon\(sides=...\)`"),
    (lambda: RegularPolygon(5, -1.0), ValueError, r"`RegularPolygon\(circumradius=...\)`"),
    (lambda: Ball([0, 0], 1.0) - Ball([0, 0, 0], 1.0), ValueError, r"two domains of one dimension"),
    (lambda: Ball([0, 0], 1.0) | 3, TypeError, r"unsupported operand"),
    (lambda: HalfSpace([1, 0], [0, 0]).interior_map(jnp.ones(2)), ValueError, r"is unbounded"),
    (lambda: HalfSpace([1, 0], [0, 0]).boundary_map(jnp.ones(2)), ValueError, r"is unbounded"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("build", "error", "message"), refused, ids=lambda v: getattr(v, "__name__", None)
)
def test_refused(build, error, message):
    with pytest.raises(error, match=message):
        build()
