"""Many runs: tables and figures of the paper, and batches of seeds."""

from ._batch import Batch as Batch
from ._batch import parse_seeds as parse_seeds
from ._batch import run_here as run_here
from ._batch import submit as submit
from ._batch import table as table
from ._config import Cell as Cell
from ._config import Experiment as Experiment
from ._config import known_experiments as known_experiments
from ._config import read_experiment as read_experiment
from ._jobs import run_in_jobs as run_in_jobs
from ._reproduce import reproduce as reproduce
from ._run import run_missing as run_missing
from ._summary import summarize as summarize
