"""References by finite elements and differences: the same problem, solved on three meshes."""

import itertools
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from ..problem import Problem
from ._adapt import adapted
from ._assemble import Assembly, Coefficients, import_skfem
from ._cells import Mesh, refine
from ._field import FEMReference
from ._fingerprint import fingerprint
from ._grid import solve_on_grid, why_no_grid
from ._march import solve_elliptic, solve_parabolic
from ._mesh import make_mesh
from ._p2 import P2Space, space_of

_RESOLUTION = 32  # default number of edges across the domain
_STEPS = 128
_NODES, _GRID_STEPS = 2048, 512  # of finite differences
_ADAPTATIONS = 2
_ORDERS = (1.0, 3.0)  # orders that are believed when seen: 3 is that of P2 in space
_TIME_ORDER = 2.0


def fem_reference(
    problem: Problem, h: float | None = None, n_steps: int | None = None
) -> FEMReference:
    """Solve a problem in one or two dimensions with quadratic finite elements.

    A mesh of size `4 h` is refined twice; the differences between the three solutions give the
    error estimate, with their observed order. Nonlinear problems are solved by Newton's method.

    Args:
        problem: the boundary value problem.
        h: longest edge; by default 1/32 of the size of the domain. Edges are shorter at small
            features, at corners where gradients are unbounded, and where the solution of an
            elliptic problem in 2-D has large second derivatives.
        n_steps: time steps of a parabolic problem, a multiple of 4; by default 128.

    Returns:
        The solution, with its error estimate and provenance.

    Example:
        ```python
        import fkpinn as fk
        from fkpinn.reference import fem_reference

        problem, _ = fk.catalogue("met")
        truth = fem_reference(problem, h=0.1)
        truth.values([[0.0, 0.0]])
        ```
    """
    if problem.dim > 2:
        raise ValueError(
            f"`problem` has dimension {problem.dim}; finite elements here cover 1 and 2. "
            f"Give its solution as `exact`, or measure without a reference (a certificate)."
        )
    if problem.jumps is not None:
        raise ValueError(
            "`problem` has `jumps`, which finite elements do not support. Give the solution as "
            "`exact`, or use `grid_reference` on an interval."
        )
    if h is None:
        lower, upper = problem.domain.bounding_box()
        h = float(np.prod(upper - lower) ** (1 / problem.dim)) / _RESOLUTION
    _check_length(h)
    n_steps = _steps(problem, n_steps)
    given = problem.nonlinearity
    if given is not None and "Q" in given.reads:
        raise ValueError(
            "`nonlinearity` depends on second derivatives, and those of finite elements are "
            "discontinuous. Give the solution as `exact`, or use `grid_reference` in 1-D."
        )
    found = _by_elements(Coefficients(problem), h, n_steps)
    if not problem.linear:
        found.provenance["method"] += ", Newton"
    return found


def grid_reference(
    problem: Problem, h: float | None = None, n_steps: int | None = None
) -> FEMReference:
    """Solve a problem on an interval with finite differences.

    Any nonlinearity is supported, also in second derivatives (control, uncertain volatility,
    obstacles), and so are jumps at random times. Three grids give the error estimate, as for finite
    elements.

    Args:
        problem: the boundary value problem, with Dirichlet data at both ends.
        h: distance between nodes; by default 1/2048 of the length of the interval.
        n_steps: time steps of a parabolic problem, a multiple of 4; by default 512.
    """
    if why := why_no_grid(problem):
        raise ValueError(
            f"`problem` must live on an interval with Dirichlet data at both ends, and {why}."
        )
    lower, upper = problem.domain.bounding_box()
    h = float(upper[0] - lower[0]) / _NODES if h is None else h
    _check_length(h)
    n_steps = _steps(problem, _GRID_STEPS if n_steps is None and problem.timed else n_steps)
    mesh = make_mesh(problem.domain, 8.0 * h)
    solve = lambda mesh, n: solve_on_grid(problem, mesh, n)
    found = _on_three_meshes(problem, mesh, solve, h, n_steps)
    call = f"grid_reference(problem, h={h!r}, n_steps={n_steps!r})"
    found.provenance |= {"method": "finite differences", "command": call}
    return found


def _check_length(h: float) -> None:
    if not (np.isfinite(h) and h > 0):
        raise ValueError(f"`h` must be a positive length; got {h!r}.")


def _by_elements(coefficients: Coefficients, h: float, n_steps: int | None) -> FEMReference:
    problem = coefficients.problem
    held = {part for part, c in problem.boundary.items() if c.absorbs}
    mesh = _adapted_mesh(coefficients, 4.0 * h, frozenset(held))
    solve = lambda mesh, n: _solve(coefficients, mesh, n)
    found = _on_three_meshes(problem, mesh, solve, h, n_steps)
    found.provenance["versions"] |= {"scikit-fem": import_skfem().__version__}
    return found


def _on_three_meshes(
    problem: Problem,
    mesh: Mesh,
    solve: Callable[[Mesh, int | None], tuple[P2Space, np.ndarray]],
    h: float,
    n_steps: int | None,
) -> FEMReference:
    levels: list[tuple[P2Space, np.ndarray]] = []
    for level in range(3):
        mesh = mesh if level == 0 else refine(mesh)
        levels.append(solve(mesh, None if n_steps is None else n_steps >> (2 - level)))
    space, fields = levels[-1]
    error, order = _estimate(levels)
    times = None
    if problem.horizon is not None:
        times = np.linspace(0.0, problem.horizon, len(fields))
    provenance: dict[str, Any] = {
        "method": "P2 finite elements",
        "problem": problem.name,
        "h": h,
        "n_steps": n_steps,
        "elements": len(space.elements),
        "unknowns": len(space.nodes),
        "observed_order": order,
        "versions": _versions("fkpinn", "jax", "numpy", "scipy"),
        "command": f"fem_reference(problem, h={h!r}, n_steps={n_steps!r})",
    }
    return FEMReference(
        space,
        fields,
        times,
        error_estimate=error,
        provenance=provenance,
        fingerprint=fingerprint(problem),
    )


def _steps(problem: Problem, n_steps: int | None) -> int | None:
    if not problem.timed:
        if n_steps is not None:
            raise ValueError(
                f"`n_steps` is for parabolic problems; got {n_steps} for an elliptic one."
            )
        return None
    if n_steps is None:
        return _STEPS
    if n_steps < 12 or n_steps % 4:
        raise ValueError(f"`n_steps` must be a multiple of 4 and at least 12; got {n_steps}.")
    return n_steps


def _adapted_mesh(coefficients: Coefficients, h: float, held: frozenset[str]) -> Mesh:
    """A mesh that is finer where the solution bends strongly; elliptic problems in 2-D only."""
    problem = coefficients.problem
    mesh = make_mesh(problem.domain, h, held)
    if problem.timed or problem.dim == 1:
        return mesh
    for _ in range(_ADAPTATIONS):
        fine, fields = _solve(coefficients, refine(mesh), None)
        mesh = make_mesh(problem.domain, h, held, adapted(space_of(mesh), fine, fields[0]))
    return mesh


def _solve(
    coefficients: Coefficients, mesh: Mesh, n_steps: int | None
) -> tuple[P2Space, np.ndarray]:
    assembly = Assembly(coefficients, mesh)
    if n_steps is None:
        return assembly.space, solve_elliptic(assembly)
    return assembly.space, solve_parabolic(assembly, n_steps)


def _estimate(levels: list[tuple[P2Space, np.ndarray]]) -> tuple[float, float]:
    """Relative rms error of the last level and the order seen, from differences of levels."""
    gaps = []
    for (coarse, before), (fine, after) in itertools.pairwise(levels):
        stride = (len(after) - 1) // max(len(before) - 1, 1)
        square, size = 0.0, 0.0
        one = np.ones((len(fine.nodes), 1))
        for k, field in enumerate(before):
            now = after[k * stride]
            seen, _, _ = coarse.evaluate(fine.nodes, field[None], np.zeros(one.shape, int), one)
            square += fine.rms(seen - now) ** 2
            size += fine.rms(now) ** 2
        gaps.append(np.sqrt(square / size) if size > 0 else np.sqrt(square))
    if gaps[1] == 0.0:
        return 0.0, _ORDERS[1]
    order = float(np.log2(gaps[0] / gaps[1])) if gaps[0] > 0 else _ORDERS[0]
    highest = _TIME_ORDER if len(levels[0][1]) > 1 else _ORDERS[1]
    believed = float(np.clip(order, _ORDERS[0], highest))
    return float(gaps[1] / (2.0**believed - 1.0)), order


def _versions(*names: str) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from a source tree
            continue
    return found
