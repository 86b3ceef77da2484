"""Speed of processes with jumps: exits of stable ones, and steps of diffusions that jump."""

from ._run import run as run
