"""Error measures."""

from .._records import Errors as Errors
from ._metrics import compare as compare
from ._metrics import errors as errors
from ._metrics import value_and_gradient as value_and_gradient
