"""Monte Carlo labels: values of the solution at points, with error bars."""

from ._estimate import Labels as Labels
from ._estimate import estimate_labels as estimate_labels
from ._scheme import SCHEMES as SCHEMES
from ._scheme import choose_scheme as choose_scheme
