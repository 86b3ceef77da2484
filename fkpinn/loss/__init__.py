"""Loss terms, how they are weighed, and where their points go."""

from ._build import make_loss as make_loss
from ._martingale import MartingaleTerm as MartingaleTerm
from ._rows import cast as cast
from ._rows import entries_of_a_row as entries_of_a_row
from ._rows import summed_over_devices as summed_over_devices
from ._sampler import AbstractSampler as AbstractSampler
from ._sampler import Adaptive as Adaptive
from ._sampler import PathPoints as PathPoints
from ._sampler import Spread as Spread
from ._terms import AbstractTerm as AbstractTerm
from ._terms import BoundaryTerm as BoundaryTerm
from ._terms import LabelTerm as LabelTerm
from ._terms import Loss as Loss
from ._terms import ResidualTerm as ResidualTerm
from ._terms import SampledResidualTerm as SampledResidualTerm
from ._terms import TerminalTerm as TerminalTerm
from ._terms import natural_scale as natural_scale
from ._weights import AbstractWeighting as AbstractWeighting
from ._weights import Annealed as Annealed
from ._weights import Fixed as Fixed
from ._weights import Uncertainty as Uncertainty
