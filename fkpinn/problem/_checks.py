"""Refuse, when a problem is built, what cannot be right: data are tried at sample points."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import prepare_compiler
from ..domain import AbstractDomain
from ._jumps import CompoundPoisson
from ._spectrum import box_eigenvalue, first_eigenvalue

if TYPE_CHECKING:
    from ._problem import Problem

_N_SAMPLES = 512
_ENTRIES = 1 << 25  # of covariance matrices, at most: those of large dimension are few
_ELLIPTIC = 1e-12  # smallest eigenvalue of the covariance over the largest


class _Samples(NamedTuple):
    """Points in the domain and on its boundary, and every coefficient at them."""

    inside: np.ndarray
    surface: np.ndarray
    part: np.ndarray
    interior: dict[str, np.ndarray]
    boundary: list[dict[str, np.ndarray]]  # by part, at all surface points
    covariance: np.ndarray
    surface_covariance: np.ndarray


def check_problem(problem: Problem) -> None:
    """Raise with a message that names the argument, what came, and what to try."""
    prepare_compiler()  # this is the first that a program compiles
    _check_bounded(problem.domain)
    if not problem.domain.parts and not problem.timed:
        raise ValueError("`domain` has no boundary, so the problem needs a `horizon`.")
    at = _sample(problem)
    for argument, values in at.interior.items():
        _check_finite(argument, values, at.inside)
    if problem.jumps is None or not problem.diffusion.is_zero:
        _check_elliptic(at)
    if problem.jumps is not None:
        _check_jumps(problem, at)
    for index, (part, condition) in enumerate(
        zip(problem.domain.parts, problem.conditions(), strict=True)
    ):
        here = at.part == index
        for field, values in at.boundary[index].items():
            label = f"boundary[{part!r}]: {type(condition).__name__}({field}=...)"
            _check_finite(label, values[here], at.surface[here])
        if not condition.absorbs:
            known = here[: len(at.surface_covariance)]
            places = at.surface[: len(known)][known]
            _check_isotropic(part, condition, at.surface_covariance[known], places)
        condition.check(part, {name: values[here] for name, values in at.boundary[index].items()})
    if not problem.linear:
        _check_nonlinearity(problem, at)
    elif not problem.timed:
        _check_unique(problem, at)


def _check_bounded(domain: AbstractDomain) -> None:
    if not domain.is_bounded():
        box = [corner.tolist() for corner in domain.bounding_box()]
        raise ValueError(
            f"`domain` must be bounded; got bounding box {box}. Intersect it with a box, for "
            f"example `Box(lower, upper) & domain`."
        )
    lower, upper = domain.bounding_box()
    if not np.all(lower < upper):
        raise ValueError("`domain` is empty: its sets do not overlap. Check their positions.")


def _sample(problem: Problem) -> _Samples:
    """Draw points and evaluate all data there, in compiled calls."""
    domain, n = problem.domain, 8 * _N_SAMPLES
    rng = np.random.default_rng(0)  # plain numbers: nothing here is worth a traced key
    dtype = jnp.result_type(float)
    u = jnp.asarray(rng.random((n, domain.n_interior_coords)), dtype)
    v = jnp.asarray(rng.random((n, domain.n_boundary_coords)), dtype)
    if domain.parts:
        interior, surface, seam = jax.tree.map(np.asarray, _drawn(domain, u, v))
        _check_shape(domain, interior.keep, seam)
        inside = interior.point[interior.keep][:_N_SAMPLES]
        on, part = surface.point[surface.keep], surface.part[surface.keep]
    else:
        inside = np.asarray(jax.vmap(domain.interior_map)(u[:_N_SAMPLES]).point)
        on, part = inside[:0], np.zeros(0, int)
    for index in sorted(set(range(len(domain.parts))) - set(part.tolist())):  # mostly cut away
        few = jax.tree.map(np.asarray, _drawn_on(domain, domain.parts[index], v))
        _check_part(domain.parts[index], few.keep)
        on = np.concatenate([on, few.point[few.keep]])
        part = np.concatenate([part, few.part[few.keep]])
    inside = problem.layout.points(_times(problem, inside), inside)
    on = problem.layout.points(_times(problem, on), on)
    terms = (problem.dynamics, problem.reaction, problem.source, problem.terminal)
    values, covariance = jax.tree.map(np.asarray, _inside(terms, jnp.asarray(inside, dtype)))
    conditions = problem.dynamics, problem.conditions()
    data, on_covariance = jax.tree.map(np.asarray, _on(conditions, jnp.asarray(on, dtype)))
    return _Samples(inside, on, part, values, data, covariance, on_covariance)


@eqx.filter_jit
def _drawn(domain: AbstractDomain, u: Float[Array, "n q"], v: Float[Array, "n r"]) -> Any:
    """Points inside and on the boundary, and which of the latter lie on a wall within the set."""
    eps = min(1e-4 * domain.diameter(), 1e-2 * domain.detail())
    mixture = domain.fair_mixture()
    surface = jax.vmap(lambda u: domain.mixed_map(u, mixture))(v)
    contains = jax.vmap(domain.contains)
    on_wall = jnp.abs(jax.vmap(domain.signed_distance)(surface.point)) < 1e-3 * eps
    beyond = contains(surface.point + eps * surface.normal)
    within = contains(surface.point - eps * surface.normal)
    return jax.vmap(domain.interior_map)(u), surface, on_wall & beyond & within


@eqx.filter_jit
def _drawn_on(domain: AbstractDomain, part: str, v: Float[Array, "n r"]) -> Any:
    mixture = domain.part_mixture(part)
    return jax.vmap(lambda u: domain.mixed_map(u, mixture))(v)


@eqx.filter_jit
def _inside(terms: tuple, points: Float[Array, "n z"]) -> Any:
    dynamics, reaction, source, end = terms

    def at(z):
        values = {"drift": dynamics.drift(z), "diffusion": dynamics.diffusion(z)}
        values |= {"reaction": reaction(z), "source": source(z)}
        if end is not None:
            name = "initial" if dynamics.layout.forward else "terminal"
            values[name] = end(dynamics.layout.space(z))
        return values

    return jax.vmap(at)(points), jax.vmap(dynamics.covariance)(_few(points))


@eqx.filter_jit
def _on(terms: tuple, points: Float[Array, "n z"]) -> Any:
    dynamics, conditions = terms

    def at(z):
        return [{name: datum(z) for name, datum in c.data().items()} for c in conditions]

    return jax.vmap(at)(points), jax.vmap(dynamics.covariance)(_few(points))


def _few(points: Float[Array, "n z"]) -> Float[Array, "m z"]:
    """As many of the points as there may be matrices."""
    return points[: max(8, _ENTRIES // points.shape[1] ** 2)]


def _times(problem: Problem, points: np.ndarray) -> np.ndarray:
    """Times spread over the interval in which data are used, one per point."""
    return np.linspace(0.0, problem.horizon or 0.0, len(points), endpoint=False)


def _check_shape(domain: AbstractDomain, keep: np.ndarray, seam: np.ndarray) -> None:
    """Raise for a set that is empty or split by a wall."""
    if not np.any(keep):
        raise ValueError(
            f"`domain` is empty, or too thin to find: none of {len(keep)} points drawn around it "
            f"lies in it. Check that the sets overlap."
        )
    if np.any(seam):
        raise ValueError(
            "`domain` is a union of sets that touch along a surface without overlapping, which "
            "leaves a wall between them. Let them overlap, or use one `Polygon`."
        )


def _check_part(part: str, keep: np.ndarray) -> None:
    if not np.any(keep):
        raise ValueError(
            f"`domain` has a boundary part {part!r} that the set operations remove (almost) "
            f"entirely: none of the {len(keep)} sample points on its surface is left. Check the "
            f"shape with that name."
        )


def _check_finite(argument: str, values: np.ndarray, points: np.ndarray) -> None:
    values = values.reshape(len(points), -1)
    bad = ~np.all(np.isfinite(values), axis=1)
    if np.any(bad):
        where = points[np.argmax(bad)]
        raise ValueError(
            f"`{argument}` must be finite in the closed domain; got {values[np.argmax(bad)]} at "
            f"{where} ({np.count_nonzero(bad)} of {len(points)} sample points). "
            f"Check for a division by zero or a root or logarithm of a negative number there."
        )


def _degenerate(covariance: np.ndarray) -> tuple[int, np.ndarray] | None:
    """The number and the eigenvalues of the first matrix that is not positive definite."""
    spectrum = np.linalg.eigvalsh(covariance)
    bad = spectrum[:, 0] <= _ELLIPTIC * np.maximum(spectrum[:, -1], np.finfo(float).tiny)
    i = int(np.argmax(bad))
    return (i, spectrum[i]) if bad[i] else None


def _check_elliptic(at: _Samples) -> None:
    if (worst := _degenerate(at.covariance)) is not None:
        i, spectrum = worst
        raise ValueError(
            f"`diffusion` must be elliptic (sigma sigma^T positive definite); at "
            f"{at.inside[i]} its eigenvalues are {spectrum}. Add noise in the missing "
            f"direction, or leave that coordinate out of the problem."
        )


def _check_jumps(problem: Problem, at: _Samples) -> None:
    """Walls that absorb, data outside that are finite, and rates within their bound."""
    for part, condition in problem.boundary.items():
        if not condition.absorbs:
            raise ValueError(
                f"`boundary[{part!r}]` is reflecting ({type(condition).__name__}), and jumps "
                f"across reflecting walls are not defined: use `Dirichlet` there, and `exterior` "
                f"for the solution outside."
            )
    jumps = problem.jumps
    if isinstance(jumps, CompoundPoisson):
        rates = np.asarray(_rates(jumps, jnp.asarray(at.inside)))
        _check_finite("rate", rates, at.inside)
        limit = f"exceed its `bound`, {jumps.highest:g}"
        for must_not, bad in (
            ("be negative", rates < 0), (limit, rates > jumps.highest * (1 + 1e-6))
        ):  # fmt: skip
            if np.any(bad):
                i = int(np.argmax(bad))
                raise ValueError(
                    f"`rate` must not {must_not}; it is {rates[i]:g} at {at.inside[i]}."
                )
        if problem.diffusion.is_zero and not problem.timed and jumps.highest == 0:
            raise ValueError("`diffusion` is zero, and so is the `rate` of jumps: nothing moves.")
    if problem.exterior is not None:
        outside = _outside(problem, at)
        values = np.asarray(_at_points(problem.exterior, jnp.asarray(outside)))
        _check_finite("exterior", values, outside)


def _outside(problem: Problem, at: _Samples) -> np.ndarray:
    """Some places out of the domain, near and farther."""
    lower, upper = problem.domain.bounding_box()
    center, rng = 0.5 * (lower + upper), np.random.default_rng(2)
    on = problem.layout.space(at.surface)
    places = center + (on - center) * (1.0 + rng.exponential(0.5, (len(on), 1)))
    far = ~np.asarray(jax.vmap(problem.domain.contains)(jnp.asarray(places)))
    return problem.layout.points(_times(problem, places[far]), places[far])


@eqx.filter_jit
def _rates(jumps: CompoundPoisson, points: Float[Array, "n z"]) -> Float[Array, " n"]:
    return jax.vmap(jumps.rate)(points)


@eqx.filter_jit
def _at_points(datum: Any, points: Float[Array, "n z"]) -> Float[Array, " n"]:
    return jax.vmap(datum)(points)


def _check_nonlinearity(problem: Problem, at: _Samples) -> None:
    """Finite, and elliptic, at sample points with values and derivatives drawn at random."""
    given = problem.nonlinearity
    assert given is not None
    rng, d = np.random.default_rng(1), problem.dim
    n = min(len(at.covariance), max(16, _N_SAMPLES // d))
    size = np.exp(rng.uniform(-2.0, 1.0, n))
    draw = lambda *shape: jnp.asarray(
        rng.normal(size=(n, *shape)) * size.reshape(-1, *(1,) * len(shape)), jnp.result_type(float)
    )
    z, u, p, q = jnp.asarray(at.inside[:n]), draw(), draw(d), draw(d, d)
    q = q + jnp.swapaxes(q, 1, 2) if given.second else None
    found = jax.tree.map(np.asarray, _slopes(given, z, u, p, q))
    numbers = np.concatenate([np.reshape(leaf, (n, -1)) for leaf in jax.tree.leaves(found)], axis=1)
    bad = ~np.all(np.isfinite(numbers), axis=1)
    if np.any(bad):
        i = int(np.argmax(bad))
        raise ValueError(
            f"`nonlinearity` must be finite with finite derivatives; it is not at "
            f"x={at.inside[i]}, u={float(u[i]):.3g} ({np.count_nonzero(bad)} of {n} samples). "
            f"Check for a root or logarithm of a negative number, or a division by zero."
        )
    if found.by_q is None:
        return
    if (worst := _degenerate(at.covariance[:n] + 2.0 * found.by_q)) is not None:
        i, spectrum = worst
        raise ValueError(
            f"`nonlinearity` must leave the equation elliptic (sigma sigma^T + 2 F_Q positive "
            f"definite); at {at.inside[i]} the eigenvalues are {spectrum}. Put more of the "
            f"second-order part into `diffusion`."
        )


@eqx.filter_jit
def _slopes(given: Any, z: Any, u: Any, p: Any, q: Any) -> Any:
    return jax.vmap(lambda z, u, p, q: given.slopes(z, u, p, q))(z, u, p, q)


def _check_isotropic(part: str, condition, a: np.ndarray, points: np.ndarray) -> None:
    dim = a.shape[1]
    level = np.trace(a, axis1=1, axis2=2)[:, None, None] / dim
    off = np.max(np.abs(a - level * np.eye(dim)), axis=(1, 2)) / level[:, 0, 0]
    if np.any(off > 1e-5):
        i = int(np.argmax(off))
        raise ValueError(
            f"`boundary[{part!r}]` is reflecting ({type(condition).__name__}), which "
            f"needs isotropic `diffusion` there; at {points[i]} sigma sigma^T is "
            f"{a[i].tolist()}. Use `Dirichlet` on this part, or make the diffusion a multiple of "
            f"the identity near it."
        )


def _check_unique(problem: Problem, at: _Samples) -> None:
    reaction = at.interior["reaction"]
    held = any(
        condition.holds({name: values[at.part == i] for name, values in at.boundary[i].items()})
        for i, condition in enumerate(problem.conditions())
    )
    if not held and not np.any(reaction != 0):
        raise ValueError(
            "`boundary` has no Dirichlet part and no Robin part, and `reaction` is zero: the "
            "solution is not unique (any constant can be added). Give a Dirichlet value "
            "somewhere, or a positive reaction."
        )
    lowest = float(np.min(reaction))
    if lowest < 0 and problem.diffusion.is_zero:
        raise ValueError(
            f"`reaction` must not be negative where there is no `diffusion`; got {lowest:g}."
        )
    if lowest < 0:  # jumps out of the domain only raise the eigenvalue
        _check_positive_spectrum(problem, lowest)


def _check_positive_spectrum(problem: Problem, lowest: float) -> None:
    if problem.dim <= 2:
        eigenvalue = first_eigenvalue(problem)
    else:
        eigenvalue = box_eigenvalue(problem, lowest)
        if eigenvalue is None:
            warnings.warn(
                f"`reaction` is negative (down to {lowest:g}) and in {problem.dim} dimensions it "
                f"could not be verified that the Feynman-Kac expectation is finite; watch the "
                f"error bars of labels.",
                stacklevel=4,
            )
            return
    if eigenvalue <= 0:
        raise ValueError(
            f"`reaction` is too negative: with values down to {lowest:g} the first eigenvalue of "
            f"the operator is {eigenvalue:.3g}, not positive, so the Feynman-Kac expectation is "
            f"infinite and the problem ill-posed. Raise the reaction by more than "
            f"{-eigenvalue:.3g}, or make the domain smaller."
        )
