"""From a problem to a solution: settings, labels, training, run folders."""

from ._folder import compare_runs as compare_runs
from ._folder import list_runs as list_runs
from ._folder import report_run as report_run
from ._phases import make_labels as make_labels
from ._phases import train_network as train_network
from ._phases import train_networks as train_networks
from ._presets import METHODS as METHODS
from ._presets import PRESETS as PRESETS
from ._presets import check_method as check_method
from ._presets import check_preset as check_preset
from ._run import certify_run as certify_run
from ._run import resume as resume
from ._run import run as run
from ._run import run_problem as run_problem
from ._run import solve as solve
from ._settings import Settings as Settings
from ._settings import close_matches as close_matches
from ._settings import settings_from as settings_from
from ._solution import Solution as Solution
from ._solution import load as load
from ._solution import slice_through as slice_through
