"""What the scripts in `examples/` say at full size, and how long they take."""

from ._run import run as run
