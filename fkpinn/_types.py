"""Array shapes that recur in signatures.

Sizes: `n` points, `d` space, `m` noise, `k` paths, `p` parameters; `z` is the length of
a point of the problem, `d` for elliptic problems and `1 + d` (time first) for parabolic.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from jaxtyping import Array, Float

Scalar: TypeAlias = Float[Array, ""]
Point: TypeAlias = Float[Array, " d"]
SpaceTimePoint: TypeAlias = Float[Array, " z"]
Points: TypeAlias = Float[Array, "n z"]
Vector: TypeAlias = Float[Array, " d"]
Matrix: TypeAlias = Float[Array, "d m"]
ScalarField: TypeAlias = Callable[[SpaceTimePoint], Scalar]

# Checked by hand where they are taken, to say in words what is wrong.
Numbers: TypeAlias = Any  # a number, an array, or nested sequences of numbers
Names: TypeAlias = Any  # a name, or one a part
