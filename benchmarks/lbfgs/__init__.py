"""L-BFGS of this package beside that of optax, from the same networks."""

from ._run import page as page
from ._run import run as run
