"""Error measures: against a reference, and without one."""

from .._records import Errors as Errors
from ._certify import Certificate as Certificate
from ._certify import NoCertificate as NoCertificate
from ._certify import TooFar as TooFar
from ._certify import certify as certify
from ._certify import rehearse as rehearse
from ._defect_paths import DefectPaths as DefectPaths
from ._metrics import compare as compare
from ._metrics import errors as errors
from ._metrics import value_and_gradient as value_and_gradient
from ._occupation import OccupationBound as OccupationBound
from ._occupation import occupation_bound as occupation_bound
from ._occupation import rehearse_bound as rehearse_bound
from ._occupation import why_no_bound as why_no_bound
from ._outside import Outside as Outside
from ._outside import outside as outside
from ._picard import PicardValue as PicardValue
from ._picard import picard_value as picard_value
from ._slopes import Gradients as Gradients
from ._slopes import gradient_with_interval as gradient_with_interval
from ._stopping import StoppingBounds as StoppingBounds
from ._stopping import stopping_bounds as stopping_bounds
from ._values import Values as Values
from ._values import value_with_interval as value_with_interval
