"""Whether labels that are corrected by paths beat more steps without them."""

from ._run import run as run
