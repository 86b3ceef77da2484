"""References that come with the package, and the choice of one for a problem."""

import functools
from importlib.resources import files

from .._types import ScalarField
from ..problem import Problem, catalogue
from ._base import AbstractReference
from ._exact import ExactReference
from ._fem import fem_reference, grid_reference
from ._field import FEMReference
from ._fingerprint import same_problem
from ._galerkin import galerkin_reference, is_separable
from ._grid import why_no_grid

_PACKAGE = "fkpinn.reference"


def stored_references() -> tuple[str, ...]:
    """Names of the catalogue problems whose reference comes with the package."""
    folder = files(_PACKAGE) / "data"
    return tuple(sorted(f.name[:-4] for f in folder.iterdir() if f.name.endswith(".npz")))


def load_reference(name: str) -> FEMReference:
    """Read a reference that comes with the package.

    Args:
        name: of the catalogue problem, one of `stored_references()`.
    """
    if name not in stored_references():
        raise ValueError(
            f"`name` must be one of the stored references {stored_references()}; got {name!r}. "
            f"Compute one with `fem_reference(problem)`."
        )
    with (files(_PACKAGE) / "data" / f"{name}.npz").open("rb") as file:
        return FEMReference.load(file)


def find_reference(
    problem: Problem, *, h: float | None = None, exact: ScalarField | None = None
) -> AbstractReference:
    """The best reference available: closed form, stored, spectral, finite elements or differences.

    Args:
        problem: the boundary value problem.
        h: edge length; if given, finite elements are computed even if a reference is stored.
        exact: the solution at one point of the problem, if it is known.

    Returns:
        A reference with `values`, `gradients` and `error_estimate`.

    Example:
        ```python
        import fkpinn as fk

        problem, exact = fk.catalogue("schrodinger")
        truth = fk.find_reference(problem, exact=exact)
        truth.values([[0.3, 0.2]])
        ```
    """
    if exact is not None:
        return ExactReference(problem, exact)
    if problem.parameters:
        raise ValueError(
            f"References are for one problem of a family; choose one: `problem.at(...)`, with "
            f"values of {', '.join(problem.parameters)}."
        )
    if h is None and problem.name in stored_references():
        stored = load_reference(problem.name)
        if same_problem(problem, stored.fingerprint):
            return stored
    if h is None and is_separable(problem):
        return galerkin_reference(problem)
    if not (problem.linear and problem.jumps is None) and not why_no_grid(problem):
        return grid_reference(problem, h)
    return fem_reference(problem, h=h)


@functools.cache  # some take a minute
def catalogue_reference(name: str) -> AbstractReference:
    """The reference of a catalogue problem."""
    entry = catalogue(name)
    return find_reference(entry.problem, exact=entry.exact)
