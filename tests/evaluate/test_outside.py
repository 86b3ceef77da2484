"""Certificates of functions that are not written in JAX."""

import sys

import equinox as eqx
import helpers
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn._compute import precision, using
from fkpinn._field import taylor
from fkpinn.evaluate import DefectPaths
from fkpinn.evaluate._host import Differences, Refused, Window
from fkpinn.evaluate._lack import lack_of_differences
from fkpinn.evaluate._outside import fitted
from fkpinn.problem import residual, residual_by_hessian

POISSON = fk.catalogue("poisson").problem
OU, OU_EXACT = fk.catalogue("ornstein-uhlenbeck")
LINE_EXACT = lambda x: jnp.sin(3.0 * x[0])
LINE = fk.manufactured(
    fk.Interval(0.0, 1.0, name=("wall", "end")), LINE_EXACT, reaction=8.0,
    boundary={"wall": fk.Neumann},
)  # fmt: skip
LANES = helpers.lanes((256,), 1 << 16, 2)
FEW = {"n_points": 64, "n_paths": 8, "seed": 1}


def poisson_rows(x):
    """The solution of `poisson`, in NumPy."""
    modes = ((3.0, 1, 4), (6.0, 5, 1), (3.0, 2, 2), (4.0, 5, 6))
    wave = lambda k, axis: np.sin(k * np.pi * x[:, axis])
    return sum(a * wave(j, 0) * wave(k, 1) for a, j, k in modes)


def ou_rows(z):
    """That of `ornstein-uhlenbeck`; after the end of time there is none."""
    left = 1.0 - z[:, 0]
    left = np.where(left >= 0, left, np.nan)
    variance = 0.32 * (1.0 - np.exp(-2.0 * left))
    return np.exp(-2.5 * variance) * np.cos(np.exp(-left) * (z[:, 1:] @ [2.0, 1.0]))


def line_rows(x):
    """That of `LINE`: reflected at one end, and discounted."""
    return np.sin(3.0 * x[:, 0])


def wave_rows(z):
    """Of three coordinates; all derivatives are known."""
    return np.sin(2.0 * z[:, 0]) * np.exp(z[:, 1]) + z[:, 1] * z[:, 2] ** 3


def wave(z):
    """The same of one point, in JAX."""
    return jnp.sin(2.0 * z[0]) * jnp.exp(z[1]) + z[1] * z[2] ** 3


def holds(certificate, error):
    return certificate.ci_low <= error <= certificate.ci_high


@pytest.mark.broad
@pytest.mark.parametrize(
    ("problem", "rows", "how"),
    [(POISSON, poisson_rows, {}), (OU, ou_rows, {"dt": 0.02})],
    ids=["poisson", "ornstein-uhlenbeck"],
)
def test_limits_hold_the_error_of_a_numpy_function(problem, rows, how):
    """A column comes as well as a row of values."""
    candidate = fk.outside(lambda z: 1.01 * rows(z)[:, None])
    with using(LANES):
        found = fk.certify(problem, candidate, **FEW, **how)
    assert holds(found, 0.01)
    assert 0.0 < found.differences < 1e-6
    assert found.to_dict()["differences"] == found.differences


@pytest.mark.broad
def test_the_same_function_in_jax_has_the_same_corrections():
    points = np.asarray(fk.sample_interior(OU, 64, key=jax.random.key(0)))
    found = []
    for candidate in (fk.outside(lambda z: 1.01 * ou_rows(z)), lambda z: 1.01 * OU_EXACT(z)):
        ready = fitted(OU, candidate)
        paths = DefectPaths(OU, ready, points, dtype="float64", dt=0.02, seed=2)
        with using(LANES):
            found.append(np.asarray(paths.run(8).value))
    size = np.sqrt(np.mean(found[1] ** 2))
    assert np.max(np.abs(found[0] - found[1])) < 1e-4 * size


def test_double_precision_reaches_the_function_wherever_it_is_off():
    """Threads of JAX do not know the precision of those that called."""
    host = Differences(lambda z: z[:, 0] + 1e-12)
    with jax.enable_x64(False), precision("float64"):
        z = jnp.asarray(np.linspace(0.0, 1.0, 200_000)[:, None])
        found = np.asarray(jax.jit(jax.vmap(lambda z: fk.outside(host.function)(z)))(z))
    assert found.dtype == np.float64
    assert np.array_equal(found, np.linspace(0.0, 1.0, 200_000) + 1e-12)


def test_derivatives_are_those_of_the_function():
    u = fk.outside(wave_rows, steps=0.01)
    z, c = jnp.array([0.3, -0.2, 0.7]), jnp.array([[1.0, 0.5, 0.0], [0.0, -2.0, 1.0]])
    weights = jnp.array([0.7, 2.0])
    ours, truth = taylor(u, z, c, weights), taylor(wave, z, c, weights)
    for a, b in zip(ours, truth, strict=True):
        assert np.allclose(a, b, rtol=0, atol=1e-6)
    for derivative in (jax.grad, jax.jacfwd, jax.hessian, lambda f: jax.jacfwd(jax.grad(f))):
        assert np.allclose(derivative(u)(z), derivative(wave)(z), rtol=0, atol=1e-5)
    many = jnp.stack([z, 2.0 * z, 0.5 * z])
    batch = jax.vmap(jax.vmap(u.taylor, (0, None, None)), (None, 0, None))
    assert batch(many, c[:, None], weights[:1]).slopes.shape == (2, 3, 1)


def test_residuals_are_those_of_the_same_function_in_jax():
    ready = fitted(OU, fk.outside(ou_rows))
    points = fk.sample_interior(OU, 32, key=jax.random.key(3))
    for operator in (residual, residual_by_hessian):
        found = jax.vmap(lambda z, r=operator: r(OU, ready, z))(points)
        assert np.max(np.abs(np.asarray(found))) < 1e-5


def test_points_of_differences_stay_in_the_window_and_are_of_fourth_order():
    def inside(z):
        assert np.all((z >= -1e-12) & (z <= 1.0 + 1e-12))
        return np.exp(z[:, 0]) * np.cos(z[:, 1])

    z = np.array([[0.0, 1.0], [0.01, 0.5], [1.0, 0.0], [0.5, 0.97]])
    axes = np.broadcast_to(np.eye(2), (4, 2, 2))
    errors = []
    for step in (0.04, 0.02, 0.01):
        host = Differences(inside, np.full(2, step), Window(np.zeros(2), np.ones(2)))
        found = host.along(z, axes)
        errors.append(np.max(np.abs(found.second[:, 0] - inside(z))))
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(slopes > 2.7)  # third order for second derivatives next to an end


def test_steps_are_longer_where_the_function_has_fewer_digits():
    single = lambda x: poisson_rows(x.astype(np.float32)).astype(np.float32)
    steps = [fitted(POISSON, fk.outside(f)).host.steps for f in (poisson_rows, single)]
    assert np.all(steps[1] >= 2.0 * steps[0])


@pytest.mark.broad
def test_the_fewer_digits_the_more_is_said_to_be_lacking():
    points = np.asarray(fk.sample_interior(POISSON, 32, key=jax.random.key(5)))
    rounded = lambda digits: fk.outside(lambda x: np.round(poisson_rows(x), digits))
    found = [lack_of_differences(POISSON, fitted(POISSON, rounded(k)), points) for k in (12, 7, 2)]
    sizes = [np.sqrt(np.mean(each**2)) for each in found]
    assert sizes[0] < 1e-5 < sizes[1] < 0.05 < sizes[2]


@pytest.mark.slow
def test_few_digits_are_refused():
    few = fk.outside(lambda x: 1.01 * np.round(line_rows(x), 4))
    with using(LANES), pytest.raises(fk.NoCertificate, match="differences of `function`"):
        fk.certify(LINE, few, dt=0.02, **FEW)


@pytest.mark.slow
def test_what_is_said_of_differences_holds_what_they_do():
    """With steps that are too long, whose residual is known."""
    ready = fitted(POISSON, fk.outside(poisson_rows, steps=0.02))
    points = np.asarray(fk.sample_interior(POISSON, 128, key=jax.random.key(4)))
    allowed = lack_of_differences(POISSON, ready, points)
    with using(LANES):
        done = DefectPaths(POISSON, ready, points, dtype="float64", seed=3).run(64)
    measured = np.sqrt(np.mean(np.asarray(done.value) ** 2 - np.asarray(done.stderr) ** 2))
    assert measured < np.sqrt(np.mean(allowed**2)) < 100 * measured


@pytest.mark.broad
def test_slopes_at_reflecting_walls_count():
    ready = fitted(LINE, fk.outside(line_rows, steps=0.1))
    found = lack_of_differences(LINE, ready, np.linspace(0.01, 0.95, 16)[:, None])
    slope = abs(3.0 - float(jax.grad(ready)(jnp.zeros(1))[0]))
    assert np.max(found) > 0.1 * slope  # local time next to the wall is of order one


@pytest.mark.slow
def test_values_with_an_interval():
    candidate = fk.outside(lambda x: 1.01 * line_rows(x))
    with using(LANES):
        found = fk.value_with_interval(LINE, candidate, [[0.3]], n_paths=256, dt=0.02)
    assert found.low[0] <= np.sin(0.9) <= found.high[0]


def raises(x):
    raise KeyError("no mesh")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x, r"shape \(64,\) or \(64, 1\).*got shape \(64, 2\)"),
        (lambda x: 1.0, r"got shape \(\)"),
        (lambda x: np.full(len(x), "a"), "must return real numbers"),
        (lambda x: np.where(x[:, 0] > 0.5, np.nan, 1.0), "must be finite.*got nan at"),
        (raises, "raised KeyError: 'no mesh'.*shape"),
        (lambda x: jnp.asarray(x)[:, 0], "written in JAX"),
    ],
    ids=["matrix", "number", "words", "nan", "raises", "jax"],
)
def test_what_will_not_do_is_refused_in_words(function, said):
    with pytest.raises(Refused, match=said):
        fk.certify(POISSON, fk.outside(function), **FEW)


@pytest.mark.broad
def test_what_fails_along_paths_is_told():
    """It is not seen before: only where compiled code calls."""
    calls = []

    def later(x):
        calls.append(len(x))
        if len(calls) > 60:
            raise RuntimeError("license expired")
        return 1.01 * line_rows(x)

    with using(LANES), pytest.raises(Refused, match="raised RuntimeError: license expired"):
        fk.certify(LINE, fk.outside(later), dt=0.02, **FEW)


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda: fk.outside(wave_rows, "symbolic"), ValueError, "`derivatives` must be one of"),
        (lambda: fk.outside(wave_rows, steps=-1.0), ValueError, "`steps` must be positive"),
        (lambda: fk.outside(wave_rows, "torch", steps=1.0), ValueError, "`steps` are for finite"),
        (lambda: fitted(POISSON, fk.outside(poisson_rows, steps=[1, 1, 1])), ValueError, "got 3"),
        (lambda: fk.certify(POISSON, lambda x: np.sin(x[0])), TypeError, "fk.outside"),
    ],
)
def test_arguments_are_checked(call, kind, said):
    with pytest.raises(kind, match=said):
        call()


def test_objects_are_told_to_pass_a_method():
    with pytest.raises(TypeError, match=r"model\.predict"):
        fk.outside(3.0)


def test_derivatives_need_steps():
    found = fk.outside(wave_rows)
    with pytest.raises(ValueError, match="has no `steps`"):
        found.host.along(np.zeros((1, 3)), np.ones((1, 1, 3)))


# ---- PyTorch


def torch_module(torch, dtype):
    """A network near a plane wave, and the same in JAX."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)]
    module = torch.nn.Sequential(*layers).to(dtype)
    a, b, c, d = (
        p.detach().double().numpy() for k in (0, 2) for p in (layers[k].weight, layers[k].bias)
    )

    def same(x):
        first, one, last, two = (jnp.asarray(part, x.dtype) for part in (a, b, c, d))
        return (last @ jnp.tanh(first @ x + one) + two)[0]

    return module, same


@pytest.mark.parametrize("single", [True, False])
def test_torch_is_differentiated_by_itself(single):
    torch = pytest.importorskip("torch")
    module, same = torch_module(torch, torch.float32 if single else torch.float64)
    ready = fitted(POISSON, module)  # known by its kind
    z, c, weights = jnp.array([0.3, 0.8]), jnp.array([[1.0, 2.0], [0.0, 1.0]]), jnp.ones(2)
    for a, b in zip(taylor(ready, z, c, weights), taylor(same, z, c, weights), strict=True):
        assert np.allclose(a, b, rtol=1e-12, atol=1e-12)
    assert next(module.parameters()).dtype == (torch.float32 if single else torch.float64)


@pytest.mark.parametrize("kind", ["torch", "differences"])
def test_torch_is_certified(kind):
    torch = pytest.importorskip("torch")
    module, same = torch_module(torch, torch.float64)
    problem = fk.manufactured(fk.Box([0, 0], [1, 1]), lambda x: same(x) / 1.01)
    with using(LANES):
        found = fk.certify(problem, fk.outside(module, kind), **FEW)
    assert holds(found, 0.01)
    assert (found.differences == 0.0) == (kind == "torch")


def test_torch_that_will_not_do_is_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(Refused, match=r"got shape \(64, 2\)"):
        fk.certify(POISSON, torch.nn.Linear(2, 2), **FEW)
    with pytest.raises(Refused, match="raised RuntimeError"):
        fk.certify(POISSON, torch.nn.Linear(3, 1), **FEW)


def test_torch_is_not_loaded_to_know_it():
    module = type("Module", (), {"__module__": "torch.nn.modules.module"})
    from fkpinn.evaluate._host import is_torch_module

    assert is_torch_module(type("Net", (module,), {})())
    assert not is_torch_module(eqx.nn.Identity())


def test_pytorch_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it fails
    host = fk.outside(lambda x: x, derivatives="torch").host
    with pytest.raises(ImportError, match="needs PyTorch: pip install torch"):
        host.values(np.zeros((2, 2)))
