"""Bias and coverage of labels in many dimensions, by the default scheme and step."""

from ._run import run as run
