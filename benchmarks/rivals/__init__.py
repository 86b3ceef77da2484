"""Nonlinear problems by this package, by Deep BSDE and by multilevel Picard, in the same time."""

from ._run import page as page
from ._run import run as run
