import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from fkpinn._compute import keep_compiled_code
from fkpinn.cli import _doctor, main

ASKED = [
    "jax>=0.10", "numpy>=2.0", "scikit-fem>=11.0; extra == 'fem'", "no-such; extra == 'vtk'",
    "jax[cuda12]>=0.10; extra == 'cuda12'", "jax[cuda13]>=0.10; extra == 'cuda13'",
]  # fmt: skip
OF_JAX = [
    'jaxlib<=0.10.2,>=0.10.1', 'numpy>=2.0',
    'jax-cuda12-plugin[with-cuda]>=0.10; extra == "cuda12"',
    'jax-cuda13-plugin[with-cuda]>=0.10; extra == "cuda13"',
]  # fmt: skip
INSTALLED = {"fkpinn": "0.1.0", "jax": "0.10.2", "jaxlib": "0.10.2", "numpy": "2.4.6"}


@pytest.fixture
def installed(monkeypatch):
    """What is installed, to be changed, in place of what is."""
    there = dict(INSTALLED)

    def version(name):
        if name not in there:
            raise importlib.metadata.PackageNotFoundError(name)
        return there[name]

    asked = {"fkpinn": ASKED, "jax": OF_JAX}
    monkeypatch.setattr(_doctor.importlib.metadata, "version", version)
    monkeypatch.setattr(_doctor.importlib.metadata, "requires", lambda name: asked.get(name))
    monkeypatch.setattr(
        _doctor.importlib.metadata, "metadata", lambda _: {"Requires-Python": ">=3.11"}
    )
    return there


def by_name(check):
    return {one.name: one for one in check()}


@pytest.mark.broad
def test_a_fresh_process_says_it_in_a_few_seconds(tmp_path):
    """Most of it is the import of jax; our own checks take a second on one core."""
    code = (
        "import time, jax, equinox\nbegun = time.process_time()\n"
        "from fkpinn.cli import main\ncode = main(['doctor', '--json'])\n"
        "import sys; print(time.process_time() - begun, file=sys.stderr); sys.exit(code)"
    )
    environment = {**os.environ, "FKPINN_CACHE": str(tmp_path / "cache")}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stderr.splitlines()[-1]) < 3.0
    said = json.loads(done.stdout)
    checks = {one["name"]: one for one in said["checks"]}
    assert said["ok"] and {"Python", "fkpinn", "jax", "jaxlib", "numpy", "scipy", "equinox"} <= set(
        checks
    )
    for name in ("optax", "devices", "cores", "memory", "precision", "this folder"):
        assert checks[name]["verdict"] in ("ok", "note")
    for extra in _doctor._EXTRAS:
        found = checks[f"extra {extra}"]
        assert found["verdict"] == "ok" or found["action"] == f'pip install "fkpinn[{extra}]"'
    assert str(tmp_path / "cache") in checks["compiled code"]["found"]


def test_the_list_has_a_line_for_everything(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")  # commands stay in one line
    findings = [
        _doctor.Finding("jax", "ok", "0.10.2 (>=0.10)"),
        _doctor.Finding("extra fem", "missing", "for meshes", 'pip install "fkpinn[fem]"'),
    ]
    monkeypatch.setattr(_doctor, "examine", lambda: findings)
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ok       jax        0.10.2 (>=0.10)",
        "missing  extra fem  for meshes",
        '                    try: pip install "fkpinn[fem]"',
        "Everything needed works.",
    ]


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_what_is_broken_is_a_failure(flags, capsys, monkeypatch):
    broken = _doctor.Finding("numpy", "broken", "not installed", 'pip install "numpy>=2.0"')
    monkeypatch.setattr(_doctor, "examine", lambda: [broken])
    assert main(["doctor", *flags]) == 1
    out, err = capsys.readouterr()
    assert "This does not work here: numpy." in err and "numpy>=2.0" in out
    if flags:
        assert json.loads(out) == {"ok": False, "checks": [broken._asdict()]}


def test_a_check_that_fails_is_a_finding(monkeypatch):
    def refuse():
        raise RuntimeError("no such platform\nand a long story")

    monkeypatch.setattr(jax, "devices", refuse)
    found = {one.name: one for one in _doctor.examine()}
    assert found["devices"][1:3] == ("broken", "RuntimeError: no such platform")
    assert "JAX_PLATFORMS" in str(found["devices"].action)
    assert found["memory"].verdict != "broken"


def test_jax_that_cannot_be_imported_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "fkpinn._compute", None)
    found = {one.name: one for one in _doctor.examine()}
    assert found["import jax"].verdict == "broken" and "pip install" in str(
        found["import jax"].action
    )
    assert "devices" not in found and "this folder" in found


# ---- versions


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("0.10.2", ">=0.10", True),
        ("0.10", ">=0.10.0", True),
        ("0.9.9", ">=0.10", False),
        ("0.10.3", "<=0.10.2,>=0.10.1", False),
        ("2.0.0rc1", ">=2.0", True),
        ("0.11.0.dev20260101", ">=0.10", True),
        ("1.0", "!=1.0", False),
        ("1.2", ">1.0, <2", True),
        ("0.0.42.1", "==0.0.42.*", True),
        ("3.1", "", True),
    ],
)
def test_versions_are_compared_as_numbers(version, wanted, fits):
    assert _doctor._fits(version, wanted) is fits


def test_versions_stand_beside_what_is_asked_for(installed):
    installed |= {"jaxlib": "0.11.0"}
    del installed["numpy"]
    found = by_name(_doctor._packages)
    assert list(found) == ["jax", "jaxlib", "numpy"]
    assert found["jax"][1:] == ("ok", "0.10.2 (>=0.10)", None)
    assert found["jaxlib"].found == "0.11.0, but <=0.10.2,>=0.10.1 is required"
    assert found["jaxlib"][1::2] == ("broken", 'pip install "jaxlib<=0.10.2,>=0.10.1"')
    assert found["numpy"][1::2] == ("broken", 'pip install "numpy>=2.0"')


def test_a_source_tree_has_no_record_of_what_it_needs(installed):
    del installed["fkpinn"]
    (found,) = _doctor._packages()
    assert found.verdict == "note" and found.action == "pip install -e ."
    assert "jax 0.10.2" in found.found and not list(_doctor._extras())


def test_python_may_be_too_old(installed, monkeypatch):
    monkeypatch.setattr(_doctor.platform, "python_version", lambda: "3.10.4")
    found = by_name(_doctor._python)["Python"]
    assert found.verdict == "broken" and found.found == "3.10.4, but >=3.11 is required"


def test_metadata_that_make_no_sense(installed, monkeypatch):
    monkeypatch.setattr(_doctor.importlib.metadata, "requires", lambda _: ["!?"])
    with pytest.raises(ValueError, match="require '!\\?', which is not a package"):
        list(_doctor._packages())


def test_extras_come_from_the_metadata(installed):
    installed |= {"scikit-fem": "12.0", "jax-cuda12-plugin": "0.10.2"}
    found = by_name(_doctor._extras)
    assert found["extra fem"].verdict == "ok" and "scikit-fem 12.0" in found["extra fem"].found
    assert found["extra vtk"][1::2] == ("missing", 'pip install "fkpinn[vtk]"')
    assert found["extra xarray"].verdict == "missing"  # the metadata do not know it
    assert found["extra cuda12"].verdict == "ok"
    assert found["extra cuda13"][1:3] == ("ok", "not needed, since cuda12 is installed")
    installed["scikit-fem"] = "10.0"
    assert by_name(_doctor._extras)["extra fem"].verdict == "missing"


def test_the_project_has_the_extras_that_are_named():
    import tomllib

    path = Path(__file__).parents[2] / "pyproject.toml"
    extras = tomllib.loads(path.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(extras) - {"all", "dev", "bench", "docs"} == set(_doctor._EXTRAS)
    page = (path.parent / "docs/usage/getting-started.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in _doctor._EXTRAS)


# ---- the machine


@pytest.fixture
def with_card(monkeypatch, tmp_path):
    """A machine with the driver of a card, whose jax computes on the processor."""
    driver = tmp_path / "version"
    driver.touch()
    monkeypatch.setattr(_doctor, "_DRIVER", driver)
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")


def test_a_card_without_cuda_in_jax(installed, with_card):
    (found,) = _doctor._devices()
    assert found.verdict == "note" and "jax is installed without CUDA" in found.found
    assert found.action == 'pip install "fkpinn[cuda12]"'


@pytest.mark.parametrize(("platforms", "word"), [("cpu", "JAX_PLATFORMS"), ("", "nvidia-smi")])
def test_a_card_that_jax_does_not_use(installed, with_card, monkeypatch, platforms, word):
    installed["jax-cuda13-plugin"] = "0.10.2"
    monkeypatch.setenv("JAX_PLATFORMS", platforms)
    (found,) = _doctor._devices()
    assert found.verdict == "note" and word in str(found.action)


def test_a_card_in_use_is_well(installed, with_card, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    (found,) = _doctor._devices()
    assert found.verdict == "ok" and found.found == f"{jax.device_count()} x cpu"


def test_cores_that_may_not_be_used(monkeypatch):
    monkeypatch.setattr("fkpinn._compute.usable_cores", lambda: 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    (found,) = _doctor._cores()
    assert found[1:3] == ("note", "2 of 8 can be used")
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert next(_doctor._cores())[1:] == ("ok", "2", None)


@pytest.mark.parametrize(
    ("limit", "free", "verdict", "words"),
    [
        ("max", 3 << 20, "ok", "3.0 GiB free of 8.0 GiB"),
        (str(1 << 30), 3 << 20, "note", "1.0 GiB free of 1.0 GiB"),
        (None, 1 << 20, "note", "1.0 GiB free of 8.0 GiB"),
        (None, None, "ok", "8.0 GiB free of 8.0 GiB"),
    ],
)
def test_memory_is_that_of_the_container(monkeypatch, tmp_path, limit, free, verdict, words):
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 1 << 21, "SC_PAGE_SIZE": 4096}.get)
    if limit is not None:
        (tmp_path / "limit").write_text(f"{limit}\n")
    if free is not None:
        (tmp_path / "free").write_text(f"MemTotal: 1 kB\nMemAvailable:   {free} kB\n")
    monkeypatch.setattr("fkpinn.cli._memory._LIMIT", tmp_path / "limit")
    monkeypatch.setattr("fkpinn.cli._memory._FREE", tmp_path / "free")
    (found,) = _doctor._memory()
    assert found.verdict == verdict and words in found.found


def test_memory_of_a_system_that_does_not_tell(monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    assert "unknown" in next(_doctor._memory()).found


def test_single_precision_is_found_out(monkeypatch):
    assert next(_doctor._precision()).verdict == "ok"
    monkeypatch.setattr("fkpinn._compute.precision", lambda _: jax.enable_x64(False))
    (found,) = _doctor._precision()
    assert found.verdict == "broken" and "got float32; 1 + 2**-40 gave 1.0" in found.found


# ---- folders


@pytest.fixture
def fresh_cache(monkeypatch):
    """A process that has compiled nothing and was told of no folder."""
    before = jax.config.values["jax_compilation_cache_dir"]
    least = jax.config.values["jax_persistent_cache_min_compile_time_secs"]
    keep_compiled_code.cache_clear()
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.delenv("FKPINN_CACHE", raising=False)
    yield
    keep_compiled_code.cache_clear()
    jax.config.update("jax_compilation_cache_dir", before)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least)


def test_compiled_code_is_kept(fresh_cache, monkeypatch, tmp_path):
    monkeypatch.setenv("FKPINN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "cache" / "before").write_bytes(bytes(3 << 20))
    (found,) = _doctor._cache()
    assert found.verdict == "ok" and found.found.endswith(", 3 MiB")
    assert f"cached in {tmp_path / 'cache'}" in found.found


def test_compiled_code_is_not_kept(fresh_cache, monkeypatch):
    monkeypatch.setenv("FKPINN_CACHE", "off")
    (found,) = _doctor._cache()
    assert found.verdict == "note" and found.action == "Unset the variable FKPINN_CACHE."


def test_a_folder_that_others_may_write_to(fresh_cache, monkeypatch, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    monkeypatch.setenv("FKPINN_CACHE", str(tmp_path / "cache"))
    (found,) = _doctor._cache()
    assert found.verdict == "note" and "can be written by others" in found.found
    assert str(found.action).startswith("Set `FKPINN_CACHE` to a folder of your own")


def test_a_folder_that_jax_was_told_of(fresh_cache, monkeypatch, tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "not" / "yet"))
    assert next(_doctor._cache()).verdict == "ok"
    monkeypatch.setattr(_doctor, "_writable", lambda _: False)
    (found,) = _doctor._cache()
    assert found.verdict == "note" and "JAX_COMPILATION_CACHE_DIR" in str(found.action)


def test_this_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert next(_doctor._folder())[1:3] == ("ok", f"{tmp_path} can be written")
    assert not list(tmp_path.iterdir())

    def refuse(**_):
        raise PermissionError("read only")

    monkeypatch.setattr(_doctor.tempfile, "TemporaryFile", refuse)
    (found,) = _doctor._folder()
    assert found.verdict == "note" and "--out DIR" in str(found.action)
