"""Points in a domain and on its boundary: uniform and low-discrepancy."""

from ._boundary import BoundaryPoints as BoundaryPoints
from ._boundary import sample_boundary as sample_boundary
from ._boundary import sobol_boundary as sobol_boundary
from ._interior import sample_interior as sample_interior
from ._interior import sample_terminal as sample_terminal
from ._interior import sobol_interior as sobol_interior
