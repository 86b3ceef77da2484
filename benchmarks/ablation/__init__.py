"""What each part of the method is worth."""

from ._run import run as run
