"""Boundary value problems solved by neural networks guided by Feynman–Kac labels.

Names load on first use (PEP 562), so `import fkpinn` and `fkpinn --help` do not pay for jax.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._miscompiled import avoid_wrong_sums as _avoid_wrong_sums

if TYPE_CHECKING:
    from fkpinn._compute import Compute as Compute
    from fkpinn._progress import SilentProgress as SilentProgress
    from fkpinn._progress import TensorBoardProgress as TensorBoardProgress
    from fkpinn._solve import CertificateSettings as CertificateSettings
    from fkpinn._solve import LabelSettings as LabelSettings
    from fkpinn._solve import NetworkSettings as NetworkSettings
    from fkpinn._solve import PointSettings as PointSettings
    from fkpinn._solve import Settings as Settings
    from fkpinn._solve import Solution as Solution
    from fkpinn._solve import TrainingSettings as TrainingSettings
    from fkpinn._solve import load as load
    from fkpinn._solve import resume as resume
    from fkpinn._solve import solve as solve
    from fkpinn.domain import AbstractDomain as AbstractDomain
    from fkpinn.domain import Ball as Ball
    from fkpinn.domain import Box as Box
    from fkpinn.domain import HalfSpace as HalfSpace
    from fkpinn.domain import Interval as Interval
    from fkpinn.domain import Polygon as Polygon
    from fkpinn.domain import RegularPolygon as RegularPolygon
    from fkpinn.domain import Space as Space
    from fkpinn.evaluate import Certificate as Certificate
    from fkpinn.evaluate import Errors as Errors
    from fkpinn.evaluate import NoCertificate as NoCertificate
    from fkpinn.evaluate import certify as certify
    from fkpinn.evaluate import errors as errors
    from fkpinn.evaluate import gradient_with_interval as gradient_with_interval
    from fkpinn.evaluate import outside as outside
    from fkpinn.evaluate import value_with_interval as value_with_interval
    from fkpinn.inverse import Inference as Inference
    from fkpinn.inverse import Observations as Observations
    from fkpinn.inverse import infer as infer
    from fkpinn.labels import Labels as Labels
    from fkpinn.labels import estimate_defect as estimate_defect
    from fkpinn.labels import estimate_labels as estimate_labels
    from fkpinn.labels import plan_labels as plan_labels
    from fkpinn.problem import AbstractMeasure as AbstractMeasure
    from fkpinn.problem import Along as Along
    from fkpinn.problem import At as At
    from fkpinn.problem import CompoundPoisson as CompoundPoisson
    from fkpinn.problem import Dirichlet as Dirichlet
    from fkpinn.problem import DiscreteJump as DiscreteJump
    from fkpinn.problem import DoubleExponentialJump as DoubleExponentialJump
    from fkpinn.problem import InBox as InBox
    from fkpinn.problem import Neumann as Neumann
    from fkpinn.problem import Normal as Normal
    from fkpinn.problem import NormalJump as NormalJump
    from fkpinn.problem import Parameter as Parameter
    from fkpinn.problem import Problem as Problem
    from fkpinn.problem import Radial as Radial
    from fkpinn.problem import Robin as Robin
    from fkpinn.problem import SampledJump as SampledJump
    from fkpinn.problem import Sampler as Sampler
    from fkpinn.problem import Stable as Stable
    from fkpinn.problem import Uniform as Uniform
    from fkpinn.problem import UnknownField as UnknownField
    from fkpinn.problem import backward_kolmogorov as backward_kolmogorov
    from fkpinn.problem import catalogue as catalogue
    from fkpinn.problem import committor as committor
    from fkpinn.problem import fractional_poisson as fractional_poisson
    from fkpinn.problem import heat as heat
    from fkpinn.problem import hjb as hjb
    from fkpinn.problem import jump_exit_time as jump_exit_time
    from fkpinn.problem import kou as kou
    from fkpinn.problem import manufactured as manufactured
    from fkpinn.problem import mean_exit_time as mean_exit_time
    from fkpinn.problem import merton as merton
    from fkpinn.problem import optimal_control as optimal_control
    from fkpinn.problem import optimal_stopping as optimal_stopping
    from fkpinn.problem import poisson as poisson
    from fkpinn.problem import reaction_diffusion as reaction_diffusion
    from fkpinn.problem import schrodinger as schrodinger
    from fkpinn.problem import semilinear as semilinear
    from fkpinn.problem import uncertain_volatility as uncertain_volatility
    from fkpinn.reference import ExactReference as ExactReference
    from fkpinn.reference import FEMReference as FEMReference
    from fkpinn.reference import find_reference as find_reference
    from fkpinn.report import NotebookProgress as NotebookProgress
    from fkpinn.sampling import sample_boundary as sample_boundary
    from fkpinn.sampling import sample_interior as sample_interior
    from fkpinn.sampling import sobol_interior as sobol_interior

    __version__: str

_EXPORTS: dict[str, str] = {
    "AbstractDomain": "fkpinn.domain",
    "Ball": "fkpinn.domain",
    "Box": "fkpinn.domain",
    "HalfSpace": "fkpinn.domain",
    "Interval": "fkpinn.domain",
    "Polygon": "fkpinn.domain",
    "RegularPolygon": "fkpinn.domain",
    "Space": "fkpinn.domain",
    "Dirichlet": "fkpinn.problem",
    "Neumann": "fkpinn.problem",
    "Problem": "fkpinn.problem",
    "Robin": "fkpinn.problem",
    "backward_kolmogorov": "fkpinn.problem",
    "catalogue": "fkpinn.problem",
    "committor": "fkpinn.problem",
    "heat": "fkpinn.problem",
    "manufactured": "fkpinn.problem",
    "mean_exit_time": "fkpinn.problem",
    "poisson": "fkpinn.problem",
    "schrodinger": "fkpinn.problem",
    "hjb": "fkpinn.problem",
    "optimal_control": "fkpinn.problem",
    "optimal_stopping": "fkpinn.problem",
    "reaction_diffusion": "fkpinn.problem",
    "semilinear": "fkpinn.problem",
    "uncertain_volatility": "fkpinn.problem",
    "sample_boundary": "fkpinn.sampling",
    "sample_interior": "fkpinn.sampling",
    "sobol_interior": "fkpinn.sampling",
    "ExactReference": "fkpinn.reference",
    "FEMReference": "fkpinn.reference",
    "find_reference": "fkpinn.reference",
    "Inference": "fkpinn.inverse",
    "Observations": "fkpinn.inverse",
    "infer": "fkpinn.inverse",
    "Labels": "fkpinn.labels",
    "estimate_defect": "fkpinn.labels",
    "estimate_labels": "fkpinn.labels",
    "plan_labels": "fkpinn.labels",
    "Certificate": "fkpinn.evaluate",
    "Errors": "fkpinn.evaluate",
    "certify": "fkpinn.evaluate",
    "errors": "fkpinn.evaluate",
    "gradient_with_interval": "fkpinn.evaluate",
    "outside": "fkpinn.evaluate",
    "value_with_interval": "fkpinn.evaluate",
    "NotebookProgress": "fkpinn.report",
    "SilentProgress": "fkpinn._progress",
    "TensorBoardProgress": "fkpinn._progress",
    "Settings": "fkpinn._solve",
    "Solution": "fkpinn._solve",
    "load": "fkpinn._solve",
    "solve": "fkpinn._solve",
    "AbstractMeasure": "fkpinn.problem",
    "Along": "fkpinn.problem",
    "At": "fkpinn.problem",
    "InBox": "fkpinn.problem",
    "Radial": "fkpinn.problem",
    "Normal": "fkpinn.problem",
    "Sampler": "fkpinn.problem",
    "Uniform": "fkpinn.problem",
    "UnknownField": "fkpinn.problem",
    "CompoundPoisson": "fkpinn.problem",
    "DiscreteJump": "fkpinn.problem",
    "DoubleExponentialJump": "fkpinn.problem",
    "NormalJump": "fkpinn.problem",
    "Parameter": "fkpinn.problem",
    "SampledJump": "fkpinn.problem",
    "Stable": "fkpinn.problem",
    "fractional_poisson": "fkpinn.problem",
    "jump_exit_time": "fkpinn.problem",
    "kou": "fkpinn.problem",
    "merton": "fkpinn.problem",
    "Compute": "fkpinn._compute",
    "NoCertificate": "fkpinn.evaluate",
    "NetworkSettings": "fkpinn._solve",
    "PointSettings": "fkpinn._solve",
    "LabelSettings": "fkpinn._solve",
    "TrainingSettings": "fkpinn._solve",
    "CertificateSettings": "fkpinn._solve",
    "resume": "fkpinn._solve",
}


_avoid_wrong_sums()  # takes effect before jax starts only, so not later than here


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value = version("fkpinn")
    elif name in _EXPORTS:
        value = getattr(import_module(_EXPORTS[name]), name)
    else:
        raise AttributeError(f"module 'fkpinn' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS, "__version__"})
