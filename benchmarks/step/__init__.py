"""How long is a gradient of the residual loss, beside `jax.hessian`, DeepXDE and jinns?"""

from ._run import run as run
