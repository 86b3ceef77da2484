"""`fkpinn labels --out FILE`, killed and started again."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from fkpinn.labels import Labels

WORDS = "labels met --points 20 --paths 20000 --dt 2e-2 --seed 5 --json".split()


def start(out, wait=True):
    command = [sys.executable, "-m", "fkpinn", *WORDS, "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if wait:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    return process


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "labels.npz"
    start(out)
    return Labels.load(out)


@pytest.mark.xdist_group("resume")
@pytest.mark.parametrize("moment", ["before", 0.05, 0.7])
def test_killed_and_started_again(tmp_path, undisturbed, moment):
    """Killed before anything is stored, and some time after the first work was."""
    out = tmp_path / "labels.npz"
    partial = tmp_path / "labels.npz.partial"
    process = start(out, wait=False)
    if moment == "before":
        time.sleep(1.5)
    else:
        limit = time.monotonic() + 120
        while not partial.exists() and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.01)
        time.sleep(moment)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    had_work = partial.exists()
    assert had_work == (moment != "before") or out.exists()
    start(out)
    again = Labels.load(out)
    for name in ("points", "value", "stderr", "skew", "unfinished"):
        np.testing.assert_array_equal(getattr(again, name), getattr(undisturbed, name))
    assert again.provenance["path_steps"] == undisturbed.provenance["path_steps"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["labels.npz"]
