"""Starts from the solution of a problem that is much alike, beside starts from scratch."""

from ._run import run as run
