"""`fkpinn labels`, small."""

import json

from fkpinn.cli import main


def test_labels_prints_its_contract(capsys):
    words = "labels exit-ball-3d --points 5 --paths 20 --dt 1e-2 --scheme euler --seed 3 --json"
    assert main(words.split()) in (None, 0)
    record = json.loads(capsys.readouterr().out)
    keys = {
        "scheme", "dt", "n_points", "n_paths", "path_steps", "path_steps_per_s", "seconds",
        "unfinished", "mean_stderr", "label_rel_err", "label_rel_bias",
    }  # fmt: skip
    assert keys <= set(record)
    assert {"compile", "run"} <= set(record["seconds"])
    assert record["scheme"] == "euler" and record["n_points"] == 5 and record["n_paths"] == 20
    assert record["label_rel_bias"] > 0  # plain exit is late
