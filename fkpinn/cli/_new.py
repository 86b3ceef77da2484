"""`fkpinn new`: a problem file to start from."""

import dataclasses
import re
from pathlib import Path
from typing import Annotated

import tyro

from fkpinn.cli._output import PLAIN, OutputOptions, print_json

_STARTER = '''"""A problem of your own. Solve it with: fkpinn solve {file}"""

import jax.numpy as jnp

import fkpinn as fk

# The domain: combine shapes by | (union), & (intersection), - (difference); name boundary parts.
domain = fk.Box([-1, -1], [1, 1], name="wall") - fk.Ball([0.3, 0.2], 0.25, name="hole")


def drift(x):
    """b(x), a vector: a function of ONE point, written with jax.numpy."""
    return jnp.stack([-x[1], x[0]])


# 1/2 sigma^2 Laplace(u) + b . grad(u) - V u + f = 0 inside. Defaults are zero, and one for
# `diffusion`. Coefficients are numbers, arrays or functions of one point.
problem = fk.Problem(
    domain=domain,
    drift=drift,
    diffusion=1.0,  # sigma: a number, a diagonal (d,), or a matrix (d, m)
    reaction=0.0,  # V, at least zero if you are not sure
    source=1.0,  # f
    boundary={{
        "wall": fk.Dirichlet(0.0),  # u is given; paths end here
        "hole": fk.Neumann(0.0),  # the outward normal derivative is given; paths are reflected
    }},
    name="{name}",
)

# A parabolic problem also has `horizon=T` and `terminal=lambda x: ...`, which gives u(T, x); its
# functions then take `t, x`.
'''


@dataclasses.dataclass(frozen=True)
class New:
    """Write a commented problem file to start from.

    Example: `fkpinn new my_problem`, then `fkpinn solve my_problem.py`
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """Name of the problem; the file is NAME.py in this folder."""
    output: OutputOptions = PLAIN

    def run(self) -> None:
        """Write the file, unless there is one."""
        with self.output.reserved():
            stem = self.name.removesuffix(".py")
            if not re.fullmatch(r"[A-Za-z0-9_-]+", stem):
                raise ValueError(
                    f"`NAME` may contain letters, digits, `-` and `_`; got {self.name!r}."
                )
            path = Path(f"{stem}.py")
            with open(path, "x", encoding="utf-8") as file:  # never over a file that is there
                file.write(_STARTER.format(file=path.name, name=stem))
        if self.output.json:
            print_json({"file": str(path)})
        else:
            print(f"{path}: edit it, then `fkpinn solve {path}`")
