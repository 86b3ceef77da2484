"""Networks."""

from .._field import AbstractField as AbstractField
from ._data import EndData as EndData
from ._data import SquaredDistance as SquaredDistance
from ._family import AtValues as AtValues
from ._hard import AbstractHard as AbstractHard
from ._hard import HardDirichlet as HardDirichlet
from ._hard import HardTerminal as HardTerminal
from ._mlp import MLP as MLP
from ._mlp import Input as Input
