"""How often intervals of gradients hold the true components."""

from ._run import run as run
