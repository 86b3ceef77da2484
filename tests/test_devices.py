"""Several devices in one process: what they share out, and that nothing depends on their number."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fkpinn as fk
from fkpinn._compute import Compute

SCRIPT = Path(__file__).with_name("devices_script.py")


def run(*numbers: int) -> dict:
    """What a process with eight devices says of work on so many of them."""
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    words = [sys.executable, str(SCRIPT), *map(str, numbers)]
    said = subprocess.run(
        words, env=os.environ | {"XLA_FLAGS": flags}, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr[-2000:]
    return json.loads(said.stdout.splitlines()[-1])


def check(found: dict) -> None:
    one = found["1"]
    for n, other in found.items():
        assert other["labels"] == one["labels"], "labels are equal to the bit"
        assert other["visits"] == one["visits"]
        assert other["certificate"] == one["certificate"]
        assert other["devices"] == int(n)
        # what travels is a matrix and a vector of all parameters, and a few numbers
        assert len(set(other["bytes"])) == 1, "bytes do not depend on the number of points"
        size = other["parameters"]
        most = 8 * (size**2 + size + 16) * other["terms"]
        assert (other["bytes"][0] == 0) if n == "1" else (0 < other["bytes"][0] <= most)
        # work of a device
        assert max(other["paths"]) <= 1.1 * sum(one["paths"]) / int(n)
        assert sum(other["rows"]) <= 1.1 * sum(one["rows"]) / int(n)
        change = [a - b for a, b in zip(other["step"], one["step"], strict=True)]
        norm = lambda v: sum(a * a for a in v) ** 0.5
        assert norm(change) < 1e-12 * norm(one["step"]), "a step is equal up to rounding"


@pytest.mark.broad
def test_the_number_of_devices_changes_nothing():
    """With an uneven share, too."""
    check(run(1, 3))


@pytest.mark.slow
def test_the_number_of_devices_changes_nothing_up_to_eight():
    check(run(1, 2, 4, 8))


@pytest.mark.parametrize("given", [0, 99, [], [0, 0], [-1]])
def test_devices_that_are_not_there_are_refused(given):
    with pytest.raises(ValueError, match="`devices` must be a number from 1 to"):
        Compute.here().limited(given)


def test_one_device_has_no_mesh():
    assert Compute.here().limited(1).mesh is None
    assert fk.Compute.here().limited([0]).devices == Compute.here().devices[:1]
