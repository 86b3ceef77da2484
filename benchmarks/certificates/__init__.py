"""Do certificates hold the true error? Many networks, good and bad, of six problems."""

from ._run import run as run
