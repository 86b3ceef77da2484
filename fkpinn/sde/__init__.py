"""Paths of the diffusion behind a problem."""

from .._field import unsplit as unsplit
from ._exit import AbstractExit as AbstractExit
from ._exit import BridgeExit as BridgeExit
from ._exit import PlainExit as PlainExit
from ._exit import ShiftedExit as ShiftedExit
from ._lane import NEAR as NEAR
from ._lane import AbstractWalk as AbstractWalk
from ._lane import absorbed_value as absorbed_value
from ._lost import describe_lost_path as describe_lost_path
from ._path import Scheme as Scheme
from ._spheres import Spheres as Spheres
from ._stable_spheres import StableSpheres as StableSpheres
from ._stepper import AbstractStepper as AbstractStepper
from ._stepper import EulerMaruyama as EulerMaruyama
from ._stepper import Heun as Heun
from ._stepper import Platen as Platen
from ._walk import Ended as Ended
from ._walk import Plan as Plan
from ._walk import Visits as Visits
from ._walk import compile_batch as compile_batch
from ._walk import run_batches as run_batches
