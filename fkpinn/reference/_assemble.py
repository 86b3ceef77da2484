"""Matrices of a problem on a mesh, by scikit-fem."""

from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..problem import Problem
from ._base import Batched
from ._cells import Mesh, edges_of, find_edges
from ._p2 import space_of
from ._walls import Wall

_ORDER = 6  # of quadrature: cubic coefficients times the product of a P2 function and a slope


def import_skfem() -> Any:
    """scikit-fem, or an error that says how to get it."""
    try:
        import skfem
    except ImportError as error:
        raise ImportError(
            "a finite element reference needs scikit-fem; try `pip install fkpinn[fem]`."
        ) from error
    return skfem


class Coefficients:
    """The data of a problem as functions of one point, each compiled once for all meshes.

    In weak form the equation is
    ∫ ½ a∇u·∇v + ∫ (½ div a − b)·∇u v + ∫ V u v = ∫ f v + ∮ ½ s² (h − αu) v,
    the last integral over reflecting parts, where a = s² I. Of a nonlinear equation it is the
    linear one next to a candidate: then rows are points followed by its value and gradient.
    """

    def __init__(self, problem: Problem):
        self.problem = problem
        self.inside = Batched(self._inside if problem.linear else self._inside_near)
        self.source = Batched(problem.source if problem.linear else self._source_near)
        self.conditions = {
            part: Batched(condition.payoff)
            if condition.absorbs
            else Batched(lambda z, condition=condition: self._reflecting(condition, z))
            for part, condition in problem.boundary.items()
        }

    def _inside(self, z):
        """½a, ½ div a − b and V."""
        problem = self.problem
        half = lambda z: 0.5 * problem.covariance(z)
        advection = -problem.drift(z)
        if problem.diffusion.function is not None:
            by_coordinate = problem.layout.space(jax.jacfwd(half)(z))
            advection = advection + jnp.einsum("iji->j", by_coordinate)
        return half(z), advection, problem.reaction(z)

    def _near(self, row):
        """Point, value and gradient of the candidate, and the slopes of the nonlinearity there."""
        n, given = self.problem.n_coords, self.problem.nonlinearity
        z, u, p = jnp.split(row, [n, n + 1])
        assert given is not None
        return z, u[0], p, given.slopes(z, u[0], p, None)

    def _inside_near(self, row):
        z, _, _, found = self._near(row)
        half, advection, reaction = self._inside(z)
        return half, advection - found.by_p, reaction - found.by_u

    def _source_near(self, row):
        z, u, p, found = self._near(row)
        return self.problem.source(z) + found.value - found.by_u * u - jnp.dot(found.by_p, p)

    def _reflecting(self, condition, z):
        """½ s² α and ½ s² h."""
        half_variance = 0.5 * jnp.trace(self.problem.covariance(z)) / self.problem.dim
        return half_variance * condition.rate(z), half_variance * condition.income(z)


class Assembly:
    """The discrete problem on one mesh; unknowns are numbered as scikit-fem does.

    Args:
        coefficients: the data of the problem.
        mesh: the mesh.
    """

    def __init__(self, coefficients: Coefficients, mesh: Mesh):
        skfem = import_skfem()
        self.coefficients, self.problem = coefficients, coefficients.problem
        self.space = space_of(mesh)
        if mesh.dim == 1:
            grid = skfem.MeshLine(mesh.vertices.T, mesh.cells.T, sort_t=False)
            kind = skfem.ElementLineP2()
        else:
            grid = skfem.MeshTri2(self.space.nodes.T.copy(), self.space.elements.T.copy())
            kind = skfem.ElementTriP2()
        self.basis = skfem.Basis(grid, kind, intorder=_ORDER)
        self.node_of = np.empty(self.basis.N, int)
        self.node_of[self.basis.element_dofs] = self.space.elements.T
        self._dof_of = np.argsort(self.node_of)
        self._walls: dict[str, Wall] = {}
        self._held: dict[str, np.ndarray] = {}
        for number, part in enumerate(mesh.parts):
            facets = _facet_nodes(mesh, mesh.facets[mesh.facet_parts == number])
            if self.problem.boundary[part].absorbs:
                self._held[part] = self._dof_of[np.unique(facets)]
            else:
                self._walls[part] = Wall(self.space.nodes, facets)
        fixed = np.zeros(self.basis.N, bool)
        for dofs in self._held.values():
            fixed[dofs] = True
        self.fixed, self.free = np.flatnonzero(fixed), np.flatnonzero(~fixed)
        self._known: tuple[list[np.ndarray], Any] | None = None

    @cached_property
    def mass(self) -> Any:
        """Mass matrix."""
        skfem = import_skfem()
        return skfem.BilinearForm(lambda u, v, w: u * v).assemble(self.basis).tocsr()

    def stiffness(self, time: float | None = None, near: np.ndarray | None = None) -> Any:
        """Matrix of the operator; the same object as before if the coefficients did not change.

        Args:
            time: of a parabolic problem.
            near: the candidate, where the problem is nonlinear.
        """
        from scipy.sparse import coo_matrix

        skfem = import_skfem()
        a, c, reaction = self.coefficients.inside(self._rows(time, near))
        walls = {
            part: self.coefficients.conditions[part](self._at(wall.rows(), time))[0]
            for part, wall in self._walls.items()
        }
        data = [a, c, reaction, *walls.values()]
        if self._known is not None:
            before, matrix = self._known
            if all(np.array_equal(x, y) for x, y in zip(before, data, strict=True)):
                return matrix

        def operator(u, v, w):
            flux = np.einsum("ij...,j...->i...", w["a"], u.grad)
            drift = np.einsum("i...,i...->...", w["c"], u.grad)
            return np.einsum("i...,i...->...", flux, v.grad) + (drift + w["r"] * u) * v

        matrix = skfem.BilinearForm(operator).assemble(
            self.basis,
            a=_grid(a, self.basis),
            c=_grid(c, self.basis),
            r=_grid(reaction, self.basis),
        )
        for part, alpha in walls.items():
            row, column, value = self._walls[part].entries(alpha)
            matrix = matrix + coo_matrix(
                (value, (self._dof_of[row], self._dof_of[column])), shape=matrix.shape
            )
        matrix = matrix.tocsr()
        self._known = (data, matrix)
        return matrix

    def load(self, time: float | None = None, near: np.ndarray | None = None) -> np.ndarray:
        """Right-hand side; arguments as for `stiffness`."""
        skfem = import_skfem()
        form = skfem.LinearForm(lambda v, w: w["f"] * v)
        f = self.coefficients.source(self._rows(time, near))
        load = form.assemble(self.basis, f=_grid(f, self.basis))
        for part, wall in self._walls.items():
            flux = self.coefficients.conditions[part](self._at(wall.rows(), time))[1]
            load = load + wall.load(flux, len(load))[self.node_of]
        return load

    def boundary_values(self, time: float | None = None) -> np.ndarray:
        """A vector with the Dirichlet values in it, zero elsewhere."""
        values = np.zeros(self.basis.N)
        for part, dofs in self._held.items():
            x = self.space.nodes[self.node_of[dofs]]
            values[dofs] = self.coefficients.conditions[part](self._at(x, time))
        return values

    def at_nodes(self, unknowns: np.ndarray) -> np.ndarray:
        """Unknowns reordered as the nodes of the space are."""
        return unknowns[..., self._dof_of]

    def node_points(self) -> np.ndarray:
        """The point each unknown belongs to."""
        return self.space.nodes[self.node_of]

    def _rows(self, time: float | None, near: np.ndarray | None) -> np.ndarray:
        """Quadrature points, one per row, followed by what a candidate has there."""
        x = np.asarray(self.basis.global_coordinates())
        points = self._at(x.reshape(len(x), -1).T, time)
        if near is None:
            return points
        field = self.basis.interpolate(near)
        slope = np.asarray(field.grad).reshape(len(x), -1)
        return np.concatenate([points, np.asarray(field).reshape(-1, 1), slope.T], axis=1)

    def _at(self, x: np.ndarray, time: float | None) -> np.ndarray:
        return self.problem.layout.points(time, x)


def _facet_nodes(mesh: Mesh, facets: np.ndarray) -> np.ndarray:
    """Nodes of boundary facets: start, end and middle of an edge; the point itself in 1-D."""
    if mesh.dim == 1:
        return facets
    middles = len(mesh.vertices) + find_edges(edges_of(mesh.cells)[0], facets)
    return np.concatenate([facets, middles[:, None]], axis=1)


def _grid(values: np.ndarray, basis: Any) -> np.ndarray:
    """Values at the rows of `_rows`, in scikit-fem's order: components, cells, points."""
    shape = np.asarray(basis.global_coordinates()).shape[1:]
    return np.moveaxis(values, 0, -1).reshape(*values.shape[1:], *shape)
