"""Other tools beside ours, in an environment of their own."""

from ._run import run as run
from ._table import page as page
