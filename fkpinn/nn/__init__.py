"""Networks."""

from ._hard import HardDirichlet as HardDirichlet
from ._mlp import MLP as MLP
