"""Files are written whole or not at all."""

import json
import os

import pytest

from fkpinn._records import write_bytes, write_json


def test_json_round_trip(tmp_path):
    write_json(tmp_path / "deep" / "a.json", {"x": 1.5, "name": "Müller"})
    assert json.loads((tmp_path / "deep" / "a.json").read_text()) == {"x": 1.5, "name": "Müller"}


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    target = tmp_path / "a.bin"
    write_bytes(target, b"old")
    monkeypatch.setattr("os.replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_bytes(target, b"new")
    assert target.read_bytes() == b"old" and list(tmp_path.iterdir()) == [target]


def test_nan_is_not_json(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert not (tmp_path / "a.json").exists()


def test_others_may_read_what_is_written(tmp_path):
    before = os.umask(0o022)
    try:
        write_json(tmp_path / "a.json", {})
    finally:
        os.umask(before)
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o644
