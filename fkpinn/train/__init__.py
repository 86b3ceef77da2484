"""Training."""

from ._fit import Fit as Fit
from ._fit import fit as fit
