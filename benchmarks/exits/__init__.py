"""Exits of a stable process from a disk, by walks on spheres: how many a second."""

from ._run import run as run
