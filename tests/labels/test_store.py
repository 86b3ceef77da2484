"""Work that is stored as it goes: taken up, told apart, never left in pieces."""

import errno

import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn import _records

PROBLEM = fk.catalogue("exit-ball-3d").problem
POINTS = jnp.zeros((2, 3), jnp.float32)


def run(store, problem=PROBLEM, **how):
    given = dict(n_paths=50, dt=1e-2, scheme="euler", seed=3) | how
    return fk.estimate_labels(problem, POINTS, store=store, **given)


def test_finished_labels_are_returned(tmp_path):
    first, again = run(tmp_path / "a.npz"), run(tmp_path / "a.npz")
    np.testing.assert_array_equal(first.value, again.value)
    assert again.provenance == first.provenance  # its seconds too: nothing was run
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (dict(seed=4), "seed"),
        (dict(n_paths=51), "n_paths"),
        (dict(dt=2e-2), "dt"),
        (dict(scheme="euler-shifted"), "scheme"),
        (dict(problem=fk.Problem(fk.Ball([0.0] * 3, 1.0), source=2.0)), "problem"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_files_of_other_runs_are_refused(tmp_path, change, what):
    run(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=rf"contains other labels: its `{what}` .*choose another"):
        run(tmp_path / "a.npz", **change)


def test_damaged_work_is_refused(tmp_path):
    (tmp_path / "a.npz.partial").write_bytes(b"PK\x03\x04 not a zip file")
    with pytest.raises(ValueError, match=r"a.npz.partial` is (damaged|not a label file)"):
        run(tmp_path / "a.npz")


def test_a_full_disk_is_said_and_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_records.os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        run(tmp_path / "a.npz")
    assert list(tmp_path.iterdir()) == []
