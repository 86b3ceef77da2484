"""How long do the paper's labels take, and what do time and memory do as paths are added?"""

from ._run import run as run
