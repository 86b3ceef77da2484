"""Monte Carlo labels: values of the solution at points, with error bars."""

from ._branching import branching_labels as branching_labels
from ._defect import defect_problem as defect_problem
from ._defect import estimate_defect as estimate_defect
from ._estimate import compile_labels as compile_labels
from ._estimate import compile_visits as compile_visits
from ._estimate import estimate_labels as estimate_labels
from ._estimate import visited_places as visited_places
from ._labels import Labels as Labels
from ._plan import LabelPlan as LabelPlan
from ._plan import plan_labels as plan_labels
from ._scheme import SCHEMES as SCHEMES
from ._scheme import Steps as Steps
from ._scheme import choose_scheme as choose_scheme
from ._scheme import step_size as step_size
from ._scheme import steps_for as steps_for
