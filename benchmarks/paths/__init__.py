"""How many path-steps a second, beside C, diffrax and NumPy on the same machine?"""

from ._run import run as run
