"""The eight problems: of the catalogue, and a convection layer; points and truth for the peers."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fkpinn as fk
from fkpinn._compute import precision
from fkpinn.reference import catalogue_reference
from fkpinn.sampling import sobol_interior

N_POINTS = 1 << 13
EPSILON = 0.02  # of the layer
NAMES = (
    "poisson", "schrodinger", "met", "committor",
    "convection-layer", "heat2d-ms", "poisson-5d", "laplace-10d",
)  # fmt: skip


def layer_exact(x: Any) -> Any:
    """Of ε Δu − ∂₁u + f = 0: a profile with a layer of width ε at x₁ = 1, times sin πx₂."""
    low = math.exp(-1.0 / EPSILON)
    profile = x[0] - (jnp.exp((x[0] - 1.0) / EPSILON) - low) / (1.0 - low)
    return profile * jnp.sin(jnp.pi * x[1])


def problem_of(name: str) -> fk.Problem:
    """The problem of that name."""
    if name != "convection-layer":
        return fk.catalogue(name).problem
    # the profile p has ε p″ − p′ = −1
    source = lambda x: jnp.sin(jnp.pi * x[1]) + EPSILON * jnp.pi**2 * layer_exact(x)
    return fk.Problem(
        fk.Box([0, 0], [1, 1]),
        drift=[-1.0, 0.0],
        diffusion=(2 * EPSILON) ** 0.5,
        source=source,
        name=name,
    )


def truth_of(name: str) -> Callable[[Any], np.ndarray]:
    """The solution at points, one a row, in double precision."""
    if name == "convection-layer":
        return lambda x: np.asarray(jax.vmap(layer_exact)(x), np.float64)
    reference = catalogue_reference(name)
    return lambda x: np.asarray(reference.values(x), np.float64)


def write_points(name: str, path: Path) -> float:
    """Points and truth for every tool; what the best constant would miss, relative."""
    with precision("float64"):
        points = sobol_interior(problem_of(name), N_POINTS)
        truth = truth_of(name)(points)
    np.savez(path, points=np.asarray(points, np.float64), truth=truth)
    return float(np.linalg.norm(truth - truth.mean()) / np.linalg.norm(truth))
