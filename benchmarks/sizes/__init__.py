"""Time and memory of the largest sizes that the documentation speaks of."""

from ._run import run as run
