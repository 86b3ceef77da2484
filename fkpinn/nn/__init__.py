"""Networks."""

from .._field import AbstractField as AbstractField
from ._data import EndData as EndData
from ._data import ExitTime as ExitTime
from ._data import SquaredDistance as SquaredDistance
from ._family import AtValues as AtValues
from ._hard import AbstractHard as AbstractHard
from ._hard import HardDirichlet as HardDirichlet
from ._hard import HardTerminal as HardTerminal
from ._mlp import MLP as MLP
from ._mlp import Input as Input
from ._size import Factor as Factor
from ._size import Size as Size
from ._size import fit_factor as fit_factor
from ._size import fit_size as fit_size
