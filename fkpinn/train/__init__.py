"""Training: one loop, and the optimizers it takes."""

from ._adam import Adam as Adam
from ._checkpoint import check_history as check_history
from ._checkpoint import load_about as load_about
from ._checkpoint import load_state as load_state
from ._checkpoint import save_state as save_state
from ._descent import GradientDescent as GradientDescent
from ._fit import Fit as Fit
from ._fit import Phase as Phase
from ._fit import fit as fit
from ._fit import precision as precision
from ._fit import working_in as working_in
from ._lbfgs import LBFGS as LBFGS
from ._many import fit_many as fit_many
from ._natural import NaturalGradient as NaturalGradient
from ._nystrom_newton import NystromNewton as NystromNewton
from ._objective import AbstractOptimizer as AbstractOptimizer
from ._objective import Objective as Objective
from ._objective import Report as Report
from ._objective import split as split
