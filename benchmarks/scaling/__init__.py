"""What labels, steps and certificates cost as sizes grow, and what many devices would gain."""

from ._model import Costs as Costs
from ._model import Sizes as Sizes
from ._run import run as run
