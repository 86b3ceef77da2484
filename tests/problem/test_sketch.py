"""What pictures show of a domain."""

import numpy as np

import fkpinn as fk
from fkpinn.problem._sketch import sketch


def test_walls_of_a_plane_domain_are_outlines():
    ring = fk.Ball([0.0, 0.0], 1.0) - fk.Ball([0.2, 0.0], 0.3, name="hole")
    drawn = sketch(fk.Problem(ring, check=False))
    walls = {name: places[np.isfinite(places[:, 0])] for name, places in drawn.walls}
    assert [*walls] == ["outer", "hole"]
    np.testing.assert_allclose(np.hypot(*walls["outer"].T), 1.0, atol=1e-2)
    np.testing.assert_allclose(np.hypot(*(walls["hole"] - [0.2, 0.0]).T), 0.3, atol=1e-2)
    assert len(walls["hole"]) > 20
    x, y = np.meshgrid(*drawn.axes)
    inside = (np.hypot(x, y) < 1.0) & (np.hypot(x - 0.2, y) > 0.3)
    assert np.array_equal(drawn.depth < 0, inside)


def test_walls_of_a_line_are_its_ends():
    drawn = sketch(fk.Problem(fk.Interval(-1.0, 2.0, name=("left", "right")), check=False))
    ends = [(name, float(places[0, 0])) for name, places in drawn.walls]
    assert [name for name, _ in ends] == ["left", "right"]
    np.testing.assert_allclose([place for _, place in ends], [-1.0, 2.0], atol=1e-9)
