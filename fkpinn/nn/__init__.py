"""Networks."""

from .._field import AbstractField as AbstractField
from ._hard import AbstractHard as AbstractHard
from ._hard import HardDirichlet as HardDirichlet
from ._hard import HardTerminal as HardTerminal
from ._mlp import MLP as MLP
