"""Whether a run that was given a target ends below it."""

from ._run import run as run
