"""Labels as a record: made from data, kept in files, honest about what was cut."""

import io
import pickle

import helpers
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk
from fkpinn._compute import precision

ONE_WIDTH = helpers.lanes((512,), 1 << 16, 2)  # one width compiles once; labels do not depend on it


def few_labels(dtype=jnp.float64) -> fk.Labels:
    """Labels with something in every field."""
    points = jnp.asarray([[0.1, -0.2], [1 / 3, 0.7], [0.0, 1e-30]], dtype)
    made = fk.Labels.from_data(points, [1.0, -2.0, np.pi], [0.1, 0.0, 1e-20], source="a test")
    return made._replace(
        n_paths=1234,
        unfinished=jnp.array([0, 3, 1]),
        bias=jnp.asarray([0.5, jnp.nan, -0.0], dtype),
        skew=jnp.asarray([-1.5, 0.0, 2.0], dtype),
        truncation=jnp.asarray([0.0, 0.25, 1e-3], dtype),
        provenance={"scheme": "a test", "dt": 0.1, "t_max": None, "seconds": {"run": 1 / 3}},
    )


def test_more_paths_of_the_same_points_are_pooled():
    """As if all payoffs had been averaged at once."""
    rng = np.random.default_rng(3)
    payoffs = rng.normal(size=(3, 4000)) + np.array([[1.0], [2.0], [-3.0]])

    def made(some) -> fk.Labels:
        k = some.shape[1]
        stderr = some.std(axis=1, ddof=1) / np.sqrt(k)
        about = {"scheme": "a test", "path_steps": k, "seconds": {"run": 1.0}}
        labels = fk.Labels.from_data(np.zeros((3, 2)), some.mean(axis=1), stderr)
        return labels._replace(n_paths=k, provenance=about)

    both = made(payoffs[:, :1000]).pooled(made(payoffs[:, 1000:]))
    whole = made(payoffs)
    assert both.n_paths == 4000
    assert both.provenance["path_steps"] == 4000 and both.provenance["seconds"] == {"run": 2.0}
    np.testing.assert_allclose(both.value, whole.value, rtol=1e-12)
    # the two halves know nothing of the difference of their means, a share of about 1 / 4000
    np.testing.assert_allclose(both.stderr, whole.stderr, rtol=5e-3)
    with pytest.raises(ValueError, match="`other` must come from paths from the same points"):
        both.pooled(fk.Labels.from_data(np.zeros((3, 2)), [1.0, 2.0, 3.0], 0.1))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64], ids=["float32", "float64"])
def test_data_become_labels(dtype):
    points = jnp.asarray([[0.0, 1.0], [2.0, 3.0]], dtype)
    labels = fk.Labels.from_data(points, [1.0, 2.0], 0.1, source="probe")
    for array in (labels.value, labels.stderr, labels.bias, labels.skew, labels.truncation):
        assert array.shape == (2,) and array.dtype == dtype
    assert labels.unfinished.shape == (2,)
    assert labels.provenance["scheme"] == "probe"
    np.testing.assert_array_equal(labels.value, np.array([1.0, 2.0], dtype))
    np.testing.assert_array_equal(labels.stderr, np.array([0.1, 0.1], dtype))
    np.testing.assert_array_equal(labels.error(), labels.stderr)


def test_data_may_be_lists_of_whole_numbers():
    labels = fk.Labels.from_data([[0], [1]], [1, 2], [0, 1])
    assert labels.points.dtype == jnp.float64
    np.testing.assert_array_equal(labels.stderr, [0.0, 1.0])


nan, inf = float("nan"), float("inf")
one = [[0.0, 0.0]]
refused = [
    (([0.0, 1.0], [1.0, 2.0], 0.1), r"`points` must have shape \(n, d\), n >= 1; got shape \(2,\)"),
    ((np.zeros((0, 2)), [], 0.1), r"`points` must have shape \(n, d\), n >= 1; got shape \(0, 2\)"),
    ((one, [1.0, 2.0], 0.1), r"must have one entry per point, shape \(1,\); got shape \(2,"),
    ((one, 1.0, 0.1), r"`value` must have one entry per point, shape \(1,\); got shape \(\)"),
    ((one, [[1.0]], 0.1), r"must have one entry per point, shape \(1,\); got shape \(1, 1\)"),
    ((one, [1.0], [0.1, 0.2]), r"`stderr` must have one entry per point, shape \(1,\)"),
    ((one, [nan], 0.1), r"`value` must be finite"),
    ((one, [1.0], inf), r"`stderr` must be finite"),
    ((one, [1.0], -0.1), r"`stderr` must not be negative; got -0.1"),
    (([[nan, 0.0]], [1.0], 0.1), r"`points` must be finite"),
]


@pytest.mark.parametrize(("given", "message"), refused, ids=range(len(refused)))
def test_refused_data(given, message):
    with pytest.raises(ValueError, match=message):
        fk.Labels.from_data(*given)


@pytest.mark.broad
def test_finite_elements_give_labels():
    case = helpers.case("poisson")
    points = fk.sample_interior(case.problem, 200, key=jr.key(1))
    labels = fk.Labels.from_fem(case.problem, points, h=0.05)
    error = np.asarray(labels.value - jax.vmap(case.exact)(points))
    # the estimate is of the rms error
    assert np.sqrt(np.mean(error**2)) <= 2 * float(labels.stderr[0])
    assert float(labels.stderr[0]) <= 0.1 * np.sqrt(np.mean(np.asarray(labels.value) ** 2))
    assert labels.provenance["scheme"] == "finite elements, h=0.05"


def test_some_of_the_labels():
    labels = fk.Labels.from_data([[0.0], [1.0], [2.0]], [3.0, 4.0, 5.0], [0.1, 0.2, 0.3])
    some = labels.rows(np.array([2, 0]))
    np.testing.assert_array_equal(some.points[:, 0], [2.0, 0.0])
    np.testing.assert_array_equal(some.value, [5.0, 3.0])
    np.testing.assert_allclose(some.stderr, [0.3, 0.1])
    assert some.n_paths == labels.n_paths and len(some.bias) == len(some.unfinished) == 2


def test_double_precision_stays_where_single_is_the_rule(recwarn):
    labels = fk.Labels.from_data(np.zeros((2, 1)), [1 / 3, 2 / 3], 1 / 3)
    with precision("float32"):
        picked, error = labels.rows(np.array([1])), labels.error()
    assert picked.value.dtype == error.dtype == jnp.float64
    assert float(picked.value[0]) == 2 / 3 and float(error[0]) == pytest.approx(1 / 3, rel=1e-15)
    assert not recwarn


def test_error_is_the_root_of_the_sum_of_squares():
    zero = jnp.zeros((3, 1))
    labels = fk.Labels.from_data(zero, [0.0] * 3, [3.0, 3.0, 2.0])
    labels = labels._replace(
        bias=jnp.array([4.0, jnp.nan, -3.0]), truncation=jnp.array([0.0, 4.0, 6.0])
    )
    np.testing.assert_allclose(labels.error(), [5.0, 5.0, 7.0], rtol=1e-15)


def same(one, other) -> None:
    """Bit for bit, NaN and the sign of zero included."""
    for name in fk.Labels._fields:
        a, b = getattr(one, name), getattr(other, name)
        if name in ("provenance", "n_paths"):
            assert a == b and type(a) is type(b)
        else:
            assert a.dtype == b.dtype and a.shape == b.shape
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", ["labels.npz", "labels"])
def test_files_give_labels_back_bit_for_bit(tmp_path, dtype, name):
    labels = few_labels(dtype)
    labels.save(tmp_path / name)
    same(labels, fk.Labels.load(tmp_path / name))
    same(labels, fk.Labels.load(str(tmp_path / name)))
    assert [f.name for f in tmp_path.iterdir()] == [name]


def test_estimated_labels_survive_a_file(tmp_path):
    problem = fk.catalogue("exit-ball-3d").problem
    labels = fk.estimate_labels(
        problem, jnp.zeros((1, 3)), n_paths=20, dt=0.02, t_max=0.1, throw=False, compute=ONE_WIDTH
    )
    labels.save(tmp_path / "labels.npz")
    same(labels, fk.Labels.load(tmp_path / "labels.npz"))


def test_truncated_files_are_refused(tmp_path):
    path = tmp_path / "labels.npz"
    few_labels().save(path)
    whole = path.read_bytes()
    for keep in [0, 1, 3, 10, 100, len(whole) // 2, len(whole) - 30, len(whole) - 1]:
        path.write_bytes(whole[:keep])
        with pytest.raises(ValueError, match=r"damaged|not a label file"):
            fk.Labels.load(path)


def test_random_bytes_are_refused(tmp_path):
    path = tmp_path / "labels.npz"
    rng = np.random.default_rng(0)
    for start in (b"", b"PK\x03\x04", b"\x93NUMPY", b"\x93NUMPY\x01\x00"):
        path.write_bytes(start + rng.bytes(3000))
        with pytest.raises(ValueError, match=r"damaged|not a label file"):
            fk.Labels.load(path)


def test_a_flipped_byte_is_noticed_or_harmless(tmp_path):
    """A checksum guards every array; what it does not guard must not matter."""
    path, labels = tmp_path / "labels.npz", few_labels()
    labels.save(path)
    whole = path.read_bytes()
    noticed, places = 0, np.random.default_rng(1).choice(len(whole), 300, replace=False)
    for place in places:
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        path.write_bytes(bytes(broken))
        try:
            found = fk.Labels.load(path)
        except ValueError as error:
            assert "damaged" in str(error) or "not a label file" in str(error), str(error)
            noticed += 1
        else:
            same(labels, found)
    assert noticed > 100


def write_npz(path, **change) -> None:
    """A label file with some arrays replaced."""
    labels = few_labels()
    arrays = {k: np.asarray(v) for k, v in labels._asdict().items() if k != "provenance"}
    np.savez(path, **(arrays | {"provenance": np.array("{}")} | change))


class _Runs:
    """Leaves a mark when unpickled."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('a label file ran code')",))


def test_pickles_are_refused(tmp_path):
    path = tmp_path / "labels.npz"
    bad = np.empty(1, object)
    bad[0] = _Runs()
    write_npz(path, value=bad)
    with pytest.raises(ValueError, match=r"damaged|not a label file"):
        fk.Labels.load(path)
    path.write_bytes(pickle.dumps(_Runs()))
    with pytest.raises(ValueError, match=r"damaged|not a label file"):
        fk.Labels.load(path)


def test_numbers_of_two_precisions_are_refused(tmp_path):
    write_npz(tmp_path / "labels.npz", value=np.array([1.0, 2.0, 3.0], np.float32))
    with pytest.raises(ValueError, match=r"`value` has the type float32, `points` float64"):
        fk.Labels.load(tmp_path / "labels.npz")


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "labels.npz"
    np.savez(path, a=np.zeros(3))
    with pytest.raises(ValueError, match=r"is not a label file: it has no 'points'"):
        fk.Labels.load(path)
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    path.write_bytes(buffer.getvalue())
    with pytest.raises(ValueError, match=r"damaged|not a label file"):
        fk.Labels.load(path)
    write_npz(path, provenance=np.array("not json {"))
    with pytest.raises(ValueError, match=r"damaged|not a label file"):
        fk.Labels.load(path)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(FileNotFoundError):
        fk.Labels.load(tmp_path / "nothing.npz")


@pytest.mark.parametrize("t_max", helpers.of_which_fast([0.05, 0.1, 0.2], 0.1))
def test_truncation_is_about_what_cut_paths_lack(t_max):
    case = helpers.case("exit-ball-3d")
    points = 0.9 * fk.sample_interior(case.problem, 200, key=jr.key(5))
    labels = fk.estimate_labels(
        case.problem, points, n_paths=400, dt=2e-3, t_max=t_max, throw=False, seed=6,
        compute=ONE_WIDTH,
    )  # fmt: skip
    cut, truncation = np.asarray(labels.unfinished), np.asarray(labels.truncation)
    assert np.any(cut > 0)
    np.testing.assert_array_equal(truncation > 0, cut > 0)
    error = np.abs(np.asarray(labels.value) - np.asarray(jax.vmap(case.exact)(points)))
    covered = error <= 3 * np.asarray(labels.stderr) + 3 * truncation
    assert np.mean(covered) >= 0.97
