"""A boundary value problem, declared once."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Matrix, Point, Scalar, SpaceTimePoint
from ..domain import AbstractDomain, Shapes, known_domain
from ..report import problem_html
from ._boundary import AbstractCondition, Dirichlet
from ._checks import check_problem
from ._coefficient import Coefficient, bind, spelled
from ._dynamics import AbstractDynamics, Dynamics
from ._jumps import AbstractJumps, Around
from ._layout import Layout, Parameter, corners
from ._linearized import linear_data
from ._measure import AbstractMeasure, Region, Uniform, extent
from ._nonlinearity import Nonlinearity, bind_nonlinearity
from ._stable import Stable

_SHAPES = 8  # sets that stand for a family of them, beside those of the corners of the ranges


class Problem(eqx.Module):
    r"""A second-order boundary value problem, linear unless it has a `nonlinearity`.

    Elliptic: $\tfrac12 \mathrm{tr}(\sigma\sigma^\top D^2 u) + b\cdot\nabla u - V u + f = 0$ in $D$.
    Parabolic (when `horizon` is given): the same plus $\partial_t u$, with $u(T, \cdot)$ given by
    `terminal`; or, with $u(0, \cdot)$ given by `initial`, the same minus $\partial_t u$. A
    `nonlinearity` adds $F(x, u, \nabla u)$ or $F(x, u, \nabla u, D^2u)$ on the left, and `jumps`
    add their generator. Coefficients are numbers, arrays, or functions of **one** point: of `x` for
    elliptic problems, of `t, x` for parabolic ones.

    Equations: [eq:elliptic-dirichlet-appendix](../theory/equations.md),
    [eq:parabolic-diffusion-appendix](../theory/equations.md).

    Args:
        domain: the bounded set $D$; or `Space(d)` for problems with a horizon; or a function of
            parameters, by name, that returns a set built of boxes and balls:
            `lambda radius: Box([-1, -1], [1, 1]) - Ball([0, 0], radius)`.
        drift: $b$, shape `(d,)`; zero by default.
        diffusion: $\sigma$: a scalar (times the identity), a diagonal `(d,)`, or `(d, m)`; one by
            default, zero with `Stable` jumps.
        reaction: $V$.
        source: $f$.
        boundary: a condition for each boundary part by name; or one condition, number or function
            for the whole boundary (a number or function means `Dirichlet`). Zero by default; with
            `exterior`, its value.
        horizon: final time $T$ of a parabolic problem.
        terminal: $u(T, x)$, a number or a function of `x`.
        initial: $u(0, x)$ instead, for an equation that runs forward in time.
        measure: where the answer is wanted: labels, errors and certificates are drawn from and
            averaged over this distribution of points. `Uniform()` by default; see also `Normal`,
            `InBox`, `Radial`, `At` and `Sampler`.
        dynamics: your own process, instead of `drift` and `diffusion`.
        nonlinearity: $F$, a function of `x, u, p` or `x, u, p, Q` (with the time first in parabolic
            problems): value, gradient and second derivatives of the solution in space.
        jumps: `CompoundPoisson(rate, law)` or `Stable(alpha)`; none by default.
        exterior: $u$ outside the domain, a number or a function of one point; only for problems
            whose paths can jump out, and required there.
        parameters: of a family of problems, solved together: a range `(lower, upper)` for each
            name, or a `Parameter`. A function with a parameter's name among its arguments gets its
            value: `diffusion=lambda x, beta: (2 / beta) ** 0.5`.
        name: a name for reports.
        check: evaluate the data at sample points and raise an error for invalid data.

    Example:
        ```python
        import fkpinn as fk

        problem = fk.Problem(
            domain=fk.Box([0, 0], [1, 1], name="wall") - fk.Ball([0.5, 0.5], 0.2, name="hole"),
            drift=lambda x: -x,
            diffusion=0.5,
            source=1.0,
            boundary={"wall": fk.Neumann(0.0), "hole": fk.Dirichlet(0.0)},
        )
        ```
    """

    domain: AbstractDomain
    layout: Layout
    dynamics: AbstractDynamics
    reaction: Coefficient
    source: Coefficient
    boundary: dict[str, AbstractCondition]
    terminal: Coefficient | None
    measure: AbstractMeasure
    nonlinearity: Nonlinearity | None
    exterior: Coefficient | None
    name: str = eqx.field(static=True)

    def __init__(
        self,
        domain: AbstractDomain | Callable[..., AbstractDomain],
        *,
        drift: Any = None,
        diffusion: Any = None,
        reaction: Any = 0.0,
        source: Any = 0.0,
        boundary: Any = None,
        horizon: float | None = None,
        terminal: Any = None,
        initial: Any = None,
        measure: AbstractMeasure | None = None,
        dynamics: AbstractDynamics | None = None,
        nonlinearity: Any = None,
        jumps: Any = None,
        exterior: Any = None,
        parameters: Mapping[str, Any] | None = None,
        name: str = "problem",
        check: bool = True,
    ):
        laws = _parameters(parameters)
        if callable(domain) and not isinstance(domain, AbstractDomain):
            domain = _shapes(domain, laws)
        domain = known_domain(domain)
        if terminal is not None and initial is not None:
            raise ValueError(
                "`terminal` and `initial` exclude each other: data are given either at the "
                "horizon or at time zero; got both."
            )
        if (horizon is None) != (terminal is None and initial is None):
            raise ValueError(
                "`horizon` and `terminal` (or `initial`) go together: give both for a parabolic "
                f"problem, neither for an elliptic one; got horizon={horizon!r}, "
                f"terminal={terminal!r}, initial={initial!r}."
            )
        if horizon is not None and not (np.isfinite(horizon) and horizon > 0):
            raise ValueError(f"`horizon` must be a positive finite time; got {horizon!r}.")
        d, forward = domain.dim, initial is not None
        span = None if horizon is None else float(horizon)
        layout = Layout(d, span, forward, laws)
        if layout.parameters and (jumps is not None or nonlinearity is not None):
            what = "jumps" if jumps is not None else "nonlinearity"
            raise ValueError(
                f"`parameters` are supported only for linear equations without jumps; got "
                f"`{what}`. Solve one problem for each value."
            )
        self.domain, self.layout, self.name = domain, layout, name
        self.dynamics = _dynamics(dynamics, drift, diffusion, jumps, layout)
        self.exterior = _exterior(exterior, domain, self.dynamics)
        self.reaction = bind("reaction", reaction, ((),), layout)
        self.source = bind("source", source, ((),), layout)
        self.terminal = None
        if horizon is not None:
            argument, given = ("initial", initial) if forward else ("terminal", terminal)
            self.terminal = bind(argument, given, ((),), layout.timeless)
        if boundary is None:
            boundary = 0.0 if self.exterior is None else self.exterior
        self.boundary = _conditions(domain, boundary, layout)
        self.measure = _checked(measure, Region(domain, layout), self.dynamics)
        if not domain.parts and not domain.is_bounded():
            self.domain = domain.within(extent(Region(domain, layout), self.measure))
        self.nonlinearity = None
        if nonlinearity is not None:
            self.nonlinearity = bind_nonlinearity(nonlinearity, layout)
        if check and not layout.parameters:
            check_problem(self)
        elif check:
            self._check_family()

    def _check_family(self) -> None:
        """Refuse a family if one of its problems cannot be right, and say which."""
        known = lambda node: isinstance(node, Coefficient)
        data = [node for node in jax.tree.leaves(self, is_leaf=known) if known(node)]
        read = {name for each in data for name in each.reads}
        read |= set(self.domain.reads if isinstance(self.domain, Shapes) else ())
        unread = [name for name in self.parameters if name not in read]
        if unread and isinstance(self.dynamics, Dynamics):  # one's own may read points
            raise ValueError(
                f"`parameters` has {', '.join(unread)}, but no function has an argument with that "
                f"name. Try `lambda x, {unread[0]}: ...`, or leave it out."
            )
        for values in corners(self.layout):
            named = self.layout.spelled(values)
            try:
                check_problem(self._at(values))
            except (TypeError, ValueError) as error:
                raise type(error)(f"With {named}: {error}") from error

    def at(self, **values: float) -> "Problem":
        """One problem of a family.

        Args:
            values: of all its parameters, within their ranges.
        """
        return self._at(self.layout.checked_values(values))

    def _at(self, values: np.ndarray) -> "Problem":
        if not self.parameters:
            return self
        given = jnp.asarray(values, float)

        def one(node: Any) -> Any:
            if isinstance(node, Coefficient):
                return node.at(given)
            return node.single if isinstance(node, Layout) else node

        new = self.measure.single(self.region), self.domain.at(values)
        old = self.measure, self.domain
        pieces = eqx.tree_at(
            lambda p: (p.measure, p.domain), self, new, is_leaf=lambda n: any(n is o for o in old)
        )
        known = lambda node: isinstance(node, Coefficient | Layout)
        found = jax.tree.map(one, pieces, is_leaf=known)
        return found.with_data(self.layout.spelled(values))

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Those of a family of problems, by name; most problems have none."""
        return dict(self.layout.parameters)

    @property
    def dim(self) -> int:
        """Dimension of space."""
        return self.domain.dim

    @property
    def horizon(self) -> float | None:
        """Length of the time interval of a parabolic problem."""
        return self.layout.horizon

    @property
    def timed(self) -> bool:
        """Whether the problem is parabolic."""
        return self.layout.timed

    @property
    def n_coords(self) -> int:
        """Length of a point of the problem: `d`, or `1 + d` with time first."""
        return self.layout.n_coords

    @property
    def region(self) -> Region:
        """Where points of the problem are."""
        return Region(self.domain, self.layout)

    def with_measure(self, measure: AbstractMeasure) -> "Problem":
        """The same problem with another measure.

        Args:
            measure: the distribution of points, see `Problem`.
        """
        law, domain = _checked(measure, self.region, self.dynamics), self.domain
        if not domain.parts:
            domain = domain.within(extent(self.region, law))
        return eqx.tree_at(lambda p: (p.measure, p.domain), self, (law, domain))

    @property
    def linear(self) -> bool:
        """Whether the equation is linear."""
        return self.nonlinearity is None

    def linearized(self, w: Callable[..., Any]) -> "Problem":
        """The linear problem of a Newton step from `w`; a linear problem is returned unchanged.

        Args:
            w: a differentiable function of one point (`x`, or time followed by `x`).
        """
        if self.linear:
            return self
        return self.with_data("linearized", **linear_data(self, w), nonlinearity=None)

    def clock(self) -> "Problem":
        """The problem that the mean discounted time of its paths solves: source one, no data."""
        walls = {part: condition.with_datum(0.0) for part, condition in self.boundary.items()}
        outside = None if self.exterior is None else 0.0
        return self.with_data("time", source=1.0, boundary=walls, exterior=outside, end=0.0)

    def with_data(self, what: str, *, end: Any = None, **data: Any) -> "Problem":
        """The same problem with some of its data replaced, unchecked.

        Args:
            what: added to the name.
            end: terminal (or initial) data, in parabolic problems.
            data: as for `Problem`.
        """
        same = {
            "dynamics": self.dynamics,
            "reaction": self.reaction,
            "source": self.source,
            "boundary": self.boundary,
            "horizon": self.horizon,
            "measure": self.measure,
            "nonlinearity": self.nonlinearity,
            "exterior": self.exterior,
            "parameters": self.parameters,
        }
        if self.timed:
            last = "initial" if self.layout.forward else "terminal"
            same[last] = self.terminal if end is None else end
        name = f"{self.name}, {what}"
        return Problem(self.domain, **(same | data), name=name, check=False)

    @property
    def drift(self) -> Coefficient:
        """$b$."""
        return self.dynamics.drift

    @property
    def diffusion(self) -> Coefficient:
        r"""$\sigma$, as it was declared."""
        return self.dynamics.diffusion

    @property
    def jumps(self) -> AbstractJumps | None:
        """Of the paths; None where they are continuous."""
        return self.dynamics.jumps

    @property
    def around(self) -> Around:
        """The domain, and what is outside."""
        return Around(self.domain, self.layout, self.exterior)

    def domain_at(self, z: SpaceTimePoint) -> AbstractDomain:
        """The domain; where its shape depends on parameters, that of the point's.

        Args:
            z: a point of the problem.
        """
        return self.region.at(z)

    def space(self, z: SpaceTimePoint) -> Point:
        """The part of the point that lies in the domain."""
        return self.layout.space(z)

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Corners of a box in space that holds the domain, or where in it the answer is wanted."""
        lower, upper = self.domain.bounding_box()
        wanted = self.measure.box()
        if wanted is None:
            return lower, upper
        return np.maximum(lower, wanted[0]), np.minimum(upper, wanted[1])

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value of each coordinate of a point of the problem, by `box`."""
        return self.layout.bounds(*self.box())

    def sigma(self, z: SpaceTimePoint) -> Matrix:
        """Diffusion as a `d` by `m` matrix, however it was declared."""
        return self.dynamics.sigma(z)

    def covariance(self, z: SpaceTimePoint) -> Float[Array, "d d"]:
        r"""$a = \sigma\sigma^\top$."""
        return self.dynamics.covariance(z)

    def mean_variance(self, z: SpaceTimePoint) -> Scalar:
        """Of the noise along an axis, the mean over all axes."""
        return jnp.trace(self.covariance(z)) / self.dim

    def conditions(self) -> tuple[AbstractCondition, ...]:
        """Boundary conditions in the order of `domain.parts`."""
        return tuple(self.boundary[part] for part in self.domain.parts)

    def absorbing(self) -> tuple[bool, ...]:
        """For each boundary part, whether paths end there."""
        return tuple(condition.absorbs for condition in self.conditions())

    @property
    def is_homogeneous(self) -> bool:
        """Whether all boundary and terminal data are zero."""
        if self.exterior is not None or not (self.terminal is None or self.terminal.is_zero):
            return False
        return all(condition.is_zero() for condition in self.conditions())

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from ._describe import describe  # these two read problems
        from ._sketch import sketch

        return problem_html(describe(self), lambda: sketch(self))

    def paths_end(self) -> bool:
        """Whether paths come to an end: at a wall, at the horizon, or by their discount."""
        walls = any(c.absorbs or c.discounts for c in self.conditions())
        return walls or self.timed or not self.reaction.is_zero


def _parameters(given: Mapping[str, Any] | None) -> tuple[tuple[str, Parameter], ...]:
    """Ranges as laws, and names that functions can have among their arguments."""
    found = []
    for name, law in (given or {}).items():
        if not (isinstance(name, str) and name.isidentifier()) or name in ("t", "x", "points"):
            raise ValueError(
                f"`parameters` must have names that arguments of functions can have, other than "
                f"`t`, `x` and `points`; got {name!r:.80}."
            )
        if not isinstance(law, Parameter):
            try:
                lower, upper = law
                law = Parameter(lower, upper)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"`parameters[{name!r}]` must be a range `(lower, upper)`, lower below upper, "
                    f"or a `Parameter`; got {law!r:.80}."
                ) from error
        found.append((name, law))
    return tuple(found)


def _shapes(given: Callable[..., Any], laws: tuple[tuple[str, Parameter], ...]) -> Shapes:
    """The domain of a family whose shape depends on parameters."""
    names = tuple(name for name, _ in laws)
    asked = tuple(inspect.signature(given).parameters)
    if not asked or not set(asked) <= set(names):
        known = ", ".join(names) or "none"
        raise TypeError(
            f"`domain` must be a domain such as `Box` or `Ball`, or a function of parameters of "
            f"the problem, which are: {known}; got {spelled(given)} with the arguments "
            f"{', '.join(asked) or 'none'}. Try `Problem(lambda radius: ..., "
            f"parameters={{'radius': (0.1, 0.4)}})`."
        )
    layout = Layout(1, parameters=laws)
    some = np.random.default_rng(0).random((_SHAPES, len(laws)))
    between = np.stack([np.asarray(layout.from_cube(jnp.asarray(u))[0]) for u in some])
    values = np.concatenate([[layout.middle()], corners(layout), between])
    return Shapes(given, asked, names, values)


def _dynamics(
    given: Any, drift: Any, diffusion: Any, jumps: Any, layout: Layout
) -> AbstractDynamics:
    d = layout.dim
    if given is None:
        if jumps is not None and not isinstance(jumps, AbstractJumps):
            raise TypeError(
                f"`jumps` must be `CompoundPoisson(rate, law)` or `Stable(alpha)`; got {jumps!r}."
            )
        noise = 0.0 if isinstance(jumps, Stable) else 1.0
        return Dynamics(
            bind("drift", 0.0 if drift is None else drift, ((d,),), layout),
            bind(
                "diffusion", noise if diffusion is None else diffusion,
                ((), (d,), (d, None)), layout,
            ),
            layout,
            None if jumps is None else jumps.checked(layout),
        )  # fmt: skip
    if drift is not None or diffusion is not None or jumps is not None:
        raise ValueError(
            "`dynamics` replaces `drift`, `diffusion` and `jumps`; give either it or these three."
        )
    if given.layout != layout:
        raise ValueError(
            f"`dynamics` must be for points of this problem, {layout}; got {given.layout}."
        )
    return given


def _exterior(given: Any, domain: AbstractDomain, dynamics: AbstractDynamics) -> Coefficient | None:
    """Data outside the domain, exactly where paths can jump there."""
    needed = dynamics.jumps is not None and bool(domain.parts)
    if needed and given is None:
        raise ValueError(
            "`exterior` must give the solution outside the domain, since paths can jump there. "
            "Try `exterior=0.0`."
        )
    if given is not None and not needed:
        why = "paths have no jumps" if dynamics.jumps is None else "the domain is all of space"
        raise ValueError(f"`exterior` is for problems whose paths can jump out; here {why}.")
    return None if given is None else bind("exterior", given, ((),), dynamics.layout)


def _checked(measure: Any, region: Region, dynamics: AbstractDynamics) -> AbstractMeasure:
    if measure is None and not region.domain.parts:
        raise ValueError(
            "`measure` is required for a domain without boundary, to say where the answer is "
            "wanted. Try `measure=Along(start)`, points on paths from a start, or `Normal(mean, "
            "std)`."
        )
    if measure is None:
        return Uniform()
    if not isinstance(measure, AbstractMeasure):
        raise TypeError(
            f"`measure` must be a distribution of points such as `Uniform()`, `Normal(mean, "
            f"std)`, `InBox(lower, upper)`, `Radial(center, radius)`, `At(points)` or "
            f"`Sampler(function)`; got {measure!r}."
        )
    return measure.checked(region).bound(region, dynamics)


def _conditions(domain: AbstractDomain, given: Any, layout: Layout) -> dict[str, AbstractCondition]:
    if not isinstance(given, Mapping):
        one = given if isinstance(given, AbstractCondition) else Dirichlet(given)
        given = dict.fromkeys(domain.parts, one)
    missing = [part for part in domain.parts if part not in given]
    if missing:
        raise ValueError(
            f"`boundary` must have data for every boundary part {domain.parts}; nothing was given "
            f"for {missing}. Try `boundary={{{missing[0]!r}: Dirichlet(0.0), ...}}`."
        )
    unknown = [part for part in given if part not in domain.parts]
    if unknown:
        raise ValueError(
            f"`boundary` has data for {unknown}, which the domain does not have; its boundary "
            f"parts are {domain.parts}. Parts are named where shapes are built: "
            f"`Ball(..., name=...)`."
        )
    conditions = {}
    for part in domain.parts:
        condition = given[part]
        if not isinstance(condition, AbstractCondition):
            condition = Dirichlet(condition)
        conditions[part] = condition.bound(part, layout)
    return conditions
