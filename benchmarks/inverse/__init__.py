"""How often limits of inferred parameters hold the true ones."""

from ._run import run as run
