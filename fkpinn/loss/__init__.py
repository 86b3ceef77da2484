"""Loss terms and their sum."""

from ._terms import AbstractTerm as AbstractTerm
from ._terms import BoundaryTerm as BoundaryTerm
from ._terms import LabelTerm as LabelTerm
from ._terms import Loss as Loss
from ._terms import ResidualTerm as ResidualTerm
from ._terms import TerminalTerm as TerminalTerm
