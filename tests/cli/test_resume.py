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


def kill(out, moment):
    """Start, and kill some seconds after the first work was stored, or before that."""
    partial = out.with_name(f"{out.name}.partial")
    process = start(out, wait=False)
    if moment is None:
        time.sleep(1.5)
    else:
        limit = time.monotonic() + 120
        while not partial.exists() and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.01)
        time.sleep(moment)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert partial.exists() == (moment is not None) or out.exists()


@pytest.mark.slow
def test_killed_and_started_again(tmp_path):
    start(tmp_path / "whole" / "labels.npz")
    undisturbed = Labels.load(tmp_path / "whole" / "labels.npz")
    for moment in (None, 0.05, 0.7):
        out = tmp_path / str(moment) / "labels.npz"
        out.parent.mkdir()
        kill(out, moment)
        start(out)
        again = Labels.load(out)
        for name in ("points", "value", "stderr", "skew", "unfinished"):
            np.testing.assert_array_equal(getattr(again, name), getattr(undisturbed, name))
        assert again.provenance["path_steps"] == undisturbed.provenance["path_steps"]
        assert [p.name for p in out.parent.iterdir()] == ["labels.npz"]
