"""Truth to measure errors against: closed forms, spectral sums, finite elements."""

from ._base import AbstractReference as AbstractReference
from ._base import Batched as Batched
from ._basis import AbstractBasis as AbstractBasis
from ._basis import LegendreBasis as LegendreBasis
from ._basis import SineBasis as SineBasis
from ._exact import ExactReference as ExactReference
from ._fem import fem_reference as fem_reference
from ._fem import grid_reference as grid_reference
from ._field import FEMReference as FEMReference
from ._fingerprint import fingerprint as fingerprint
from ._fingerprint import same_problem as same_problem
from ._galerkin import GalerkinReference as GalerkinReference
from ._galerkin import galerkin_reference as galerkin_reference
from ._grid import why_no_grid as why_no_grid
from ._stored import catalogue_reference as catalogue_reference
from ._stored import find_reference as find_reference
from ._stored import load_reference as load_reference
from ._stored import stored_references as stored_references
