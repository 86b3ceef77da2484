"""One network for a family of metastable problems, against finite elements for many of them."""

from ._run import run as run
