"""Parameters of a family of problems from measurements."""

from ._data import Observations as Observations
from ._infer import Band as Band
from ._infer import Inference as Inference
from ._infer import infer as infer
