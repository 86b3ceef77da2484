"""Boundary value problems: coefficients, boundary data, operator, named recipes."""

from ._boundary import AbstractCondition as AbstractCondition
from ._boundary import Dirichlet as Dirichlet
from ._boundary import Neumann as Neumann
from ._boundary import Robin as Robin
from ._catalogue import Entry as Entry
from ._catalogue import catalogue as catalogue
from ._catalogue import double_well as double_well
from ._catalogue import muller_brown as muller_brown
from ._catalogue import muller_brown_committor as muller_brown_committor
from ._coefficient import Coefficient as Coefficient
from ._describe import describe as describe
from ._manufactured import as_field as as_field
from ._manufactured import manufactured as manufactured
from ._operator import boundary_residual as boundary_residual
from ._operator import generator as generator
from ._operator import residual as residual
from ._operator import residual_by_hessian as residual_by_hessian
from ._operator import sampled_residual as sampled_residual
from ._problem import Problem as Problem
from ._recipes import backward_kolmogorov as backward_kolmogorov
from ._recipes import committor as committor
from ._recipes import heat as heat
from ._recipes import mean_exit_time as mean_exit_time
from ._recipes import poisson as poisson
from ._recipes import schrodinger as schrodinger
from ._spectrum import first_eigenvalue as first_eigenvalue
