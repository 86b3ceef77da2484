"""Networks."""

from .._field import AbstractField as AbstractField
from ._hard import HardDirichlet as HardDirichlet
from ._mlp import MLP as MLP
