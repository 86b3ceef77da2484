r"""Isotropic stable processes: the fractional Laplacian in an equation.

$-c^\alpha(-\Delta)^{\alpha/2}u$, whose paths scale as $t^{1/\alpha}$ and leave a domain by a jump.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import roots_jacobi

from .._types import Point, Scalar, SpaceTimePoint, Vector
from .._words import Words
from ..domain import Ball, Box
from ._jumps import AbstractJumps, Around, words_at
from ._layout import Layout

_NEAR, _FAR = 6, 12  # nodes next to a point, and on the way to the wall
_ANGLES = 10  # directions in the plane
_LEAST, _MOST = 8, 32  # directions in more dimensions


class Stable(AbstractJumps):
    r"""An isotropic stable process: adds $-c^\alpha(-\Delta)^{\alpha/2}u$ to the equation.

    Args:
        alpha: $\alpha$ in (0, 2); the smaller, the longer the jumps.
        scale: $c$, a positive number.
    """

    alpha: float = eqx.field(static=True)
    scale: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        if not 0.0 < self.alpha < 2.0:
            raise ValueError(
                f"`alpha` must lie between 0 and 2; got {self.alpha!r}. At 2 the process is a "
                f"diffusion: leave `jumps` out, and set `diffusion=2 ** 0.5`."
            )
        if not 0.0 < self.scale < math.inf:
            raise ValueError(f"`scale` must be positive and finite; got {self.scale!r}.")

    def checked(self, layout: Layout) -> "Stable":
        """In any dimension."""
        return self

    def fingerprint(self, z: SpaceTimePoint) -> Float[Array, " k"]:
        """Its numbers."""
        return jnp.asarray([self.alpha, self.scale], z.dtype)

    def strength(self, z: SpaceTimePoint) -> Scalar:
        """For a domain of unit size."""
        return jnp.asarray(self.scale**self.alpha, z.dtype)

    def ball_time(self, dim: int) -> float:
        r"""$1/K$: mean exit time from the unit ball, from its center (Getoor, 1961).

        $u = (1 - |x|^2)^{\alpha/2} / K$ solves $(-\Delta)^{\alpha/2}u = 1$ there, with
        $K = 2^\alpha\,\Gamma(1+\alpha/2)\,\Gamma((d+\alpha)/2) / \Gamma(d/2)$.
        """
        return 1.0 / self.ball_eigenvalue(dim, 0, 0)

    def ball_eigenvalue(self, dim: int, harmonic: int, radial: int) -> float:
        r"""What polynomials times $(1 - |x|^2)^{\alpha/2}$ are multiplied by, in the unit ball.

        $\mu_{nl} = 2^\alpha\,\Gamma(1+\alpha/2+n)\,\Gamma((d+2l+\alpha)/2+n)\,/\,(n!\,
        \Gamma((d+2l)/2+n))$, for a harmonic polynomial of degree $l$ times one of Jacobi's of
        degree $n$ in $2|x|^2 - 1$.

        Args:
            dim: of space.
            harmonic: $l$.
            radial: $n$.
        """
        a, n, middle = self.alpha, radial, 0.5 * dim + harmonic + radial
        log = a * math.log(2.0) + math.lgamma(1 + a / 2 + n) + math.lgamma(middle + a / 2)
        return math.exp(log - math.lgamma(n + 1) - math.lgamma(middle)) * self.scale**a

    def increment(
        self, words: Words, z: SpaceTimePoint, dt: Scalar, dim: int
    ) -> tuple[Words, Vector]:
        """What a path gains in a time step, wherever it is.

        A normal vector times the root of a positive stable time (Kanter, Ann. Probab. 3, 1975).
        """
        words, u = words.uniforms(2, dt.dtype)
        words, normals = words.normals(dim, dt.dtype)
        a = 0.5 * self.alpha
        angle, clock = math.pi * u[0], -jnp.log(u[1])
        time = jnp.sin(a * angle) / jnp.sin(angle) ** (1.0 / a)
        time = time * (jnp.sin((1.0 - a) * angle) / clock) ** ((1.0 - a) / a)
        size = self.scale * dt ** (1.0 / self.alpha) * jnp.sqrt(2.0 * time)
        return words, size * normals

    def generator(self, u: Callable[..., Any], around: Around, z: SpaceTimePoint) -> Scalar:
        """By directions, and on each by Gauss and Jacobi's rule in the distance."""
        if not isinstance(around.domain, (Ball, Box)):
            raise ValueError(
                f"The residual of `Stable` jumps is available for `Ball` and `Box` only; got "
                f"{type(around.domain).__name__}. Labels work on every domain: "
                f"`fk.estimate_labels(problem, points, ...)`."
            )
        z = around.at(z, _off_the_wall(around.domain, around.layout.space(z)))
        here = u(z)
        along = lambda theta: self._along(u, around, z, here, theta)
        rows = _directions(z, around.layout.space(z))
        constant = _constant(self.alpha, around.layout.dim) * self.scale**self.alpha
        return -constant * jnp.mean(jax.vmap(along)(rows))

    def _along(
        self, u: Callable[..., Any], around: Around, z: SpaceTimePoint, here: Scalar, theta: Vector
    ) -> Scalar:
        r"""$\int_0^\infty (2u(x) - u(x + r\theta) - u(x - r\theta))\, r^{-1-\alpha}\,dr$."""
        a, x = self.alpha, around.layout.space(z)
        at = lambda r: u(around.at(z, x + r * theta))
        ends = [_way(around.domain, x, theta), _way(around.domain, x, -theta)]
        near = 0.5 * jnp.minimum(*ends)
        nodes, weights = _jacobi(_NEAR, 0.0, 1.0 - a)  # weight r^(1 - alpha) from 0
        r = near * jnp.asarray(nodes, z.dtype)
        bends = (2.0 * here - jax.vmap(at)(r) - jax.vmap(at)(-r)) / r**2
        total = near ** (2.0 - a) * jnp.sum(jnp.asarray(weights, z.dtype) * bends)
        total = total + 2.0 * here * near**-a / a
        # in the logarithm of the distance; u nears its value at the wall as distance^(alpha / 2)
        nodes, weights = _jacobi(_FAR, 0.0, 0.5 * a)
        lift = jnp.asarray(weights / nodes ** (0.5 * a), z.dtype)
        for sign, end in zip((1.0, -1.0), ends, strict=True):
            length = jnp.log(end / near)
            r = end * jnp.exp(-length * jnp.asarray(nodes, z.dtype))
            wall = self._at_wall(around, z, x + sign * end * theta)
            lack = jax.vmap(at)(sign * r) - wall
            total = total - length * jnp.sum(lift * lack * r**-a)
            total = total - wall * (near**-a - end**-a) / a
            total = total - self._beyond(around, z, sign * theta, end**-a)
        return total

    def _at_wall(self, around: Around, z: SpaceTimePoint, x: Point) -> Scalar:
        """What the function comes to where a ray leaves."""
        assert around.exterior is not None
        if around.exterior.is_zero:
            return jnp.zeros((), z.dtype)
        return around.exterior(around.at(z, x))

    def _beyond(self, around: Around, z: SpaceTimePoint, theta: Vector, last: Scalar) -> Scalar:
        """What is given outside, seen along a ray that has left."""
        outside = around.exterior
        assert outside is not None
        if outside.is_zero:
            return jnp.zeros((), z.dtype)
        at, weight = np.polynomial.legendre.leggauss(_FAR)
        s = 0.5 * last * jnp.asarray(1.0 + at, z.dtype)
        x = around.layout.space(z)
        data = lambda r: outside(around.at(z, x + r * theta))
        values = jax.vmap(data)(s ** (-1.0 / self.alpha))
        return 0.5 * last / self.alpha * jnp.sum(jnp.asarray(weight, z.dtype) * values)


def _constant(alpha: float, dim: int) -> float:
    """Of the integral over distances, averaged over directions."""
    sphere = math.log(2.0) + 0.5 * dim * math.log(math.pi) - math.lgamma(dim / 2)
    log = alpha * math.log(2.0) + math.lgamma((dim + alpha) / 2) - 0.5 * dim * math.log(math.pi)
    return 0.5 * math.exp(log + sphere) / abs(math.gamma(-alpha / 2))


def _jacobi(count: int, right: float, left: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes in (0, 1) and weights for s^left (1 - s)^right."""
    nodes, weights = roots_jacobi(count, right, left)
    return 0.5 * (1.0 + nodes), weights / 2.0 ** (1.0 + left + right)


def _directions(z: SpaceTimePoint, x: Point) -> Float[Array, "n d"]:
    """All on the line, evenly spread in the plane, else random frames that differ with the point.

    Over the directions of a frame what is quadratic in them has its mean exactly.
    """
    dim = len(x)
    if dim == 1:
        return jnp.ones((1, 1), z.dtype)
    if dim == 2:
        angles = (np.arange(_ANGLES) + 0.5) * math.pi / _ANGLES
        return jnp.asarray(np.stack([np.cos(angles), np.sin(angles)], axis=1), z.dtype)

    size = min(dim, _MOST)
    frames = -(-_LEAST // size)
    words = words_at(z, frames * size)
    normals = jax.vmap(lambda words: words.normals(dim, z.dtype)[1])(words)
    rows = jax.vmap(_orthonormal)(normals.reshape(frames, size, dim)).reshape(-1, dim)
    return jax.lax.stop_gradient(rows)


def _orthonormal(rows: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """By Gram and Schmidt, twice."""

    def one(i, done):
        row = rows[i]
        for _ in range(2):
            row = row - (done @ row) @ done
        return done.at[i].set(row / jnp.sqrt(jnp.sum(row**2)))

    return jax.lax.fori_loop(0, len(rows), one, jnp.zeros_like(rows))


def _off_the_wall(domain: Any, x: Point) -> Point:
    """Not so close to the wall that differences of values are rounding; paths are rarely there."""
    least = (1e-3 if x.dtype == jnp.float32 else 1e-5) * 0.5 * float(domain.diameter())
    if isinstance(domain, Ball):
        center = jnp.asarray(domain.center, x.dtype)
        far = jnp.sqrt(jnp.sum((x - center) ** 2))
        most = domain.radius - least
        return jnp.where(far > most, center + (x - center) * most / jnp.maximum(far, most), x)
    lower, upper = (jnp.asarray(a, x.dtype) for a in domain.bounding_box())
    return jnp.clip(x, lower + least, upper - least)


def _way(domain: Any, x: Point, theta: Vector) -> Scalar:
    """How far a ray goes until it leaves."""
    if isinstance(domain, Ball):
        y = x - jnp.asarray(domain.center, x.dtype)
        ahead = jnp.dot(y, theta)
        inside = domain.radius**2 - jnp.sum(y**2)
        root = jnp.sqrt(jnp.maximum(ahead**2 + inside, 0.0))
        # of two equal forms the one without cancellation
        way = jnp.where(ahead > 0, inside / (ahead + root), root - ahead)
    else:
        lower, upper = (jnp.asarray(a, x.dtype) for a in domain.bounding_box())
        tiny = jnp.finfo(x.dtype).tiny
        steep = jnp.where(jnp.abs(theta) < tiny, tiny, theta)
        way = jnp.min(jnp.where(steep > 0, (upper - x) / steep, (lower - x) / steep))
    return jnp.maximum(way, 1e-6 * float(domain.diameter()))
