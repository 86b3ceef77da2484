"""Errors and times of the linear problems in many dimensions, beside bars that were set before."""

from ._run import run as run
from ._table import page as page
