"""Paths of the diffusion behind a problem."""

from ._walk import Payoffs as Payoffs
from ._walk import run_paths as run_paths
