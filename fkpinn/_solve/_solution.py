"""A trained network as a function anyone can call, save and load."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from .._compute import precision, quickly_compiled
from .._field import AbstractField
from .._files import reading
from .._records import write_bytes
from .._streams import Stream
from ..evaluate import (
    Certificate,
    Gradients,
    Values,
    certify,
    gradient_with_interval,
    value_with_interval,
)
from ..loss import cast
from ..nn import MLP, AbstractHard, AtValues, Input, Size
from ..problem import Layout, Parameter, Problem, catalogue
from ..reference import AbstractReference, fingerprint, same_problem
from ..report import profile_figure, save_animation, save_figure, slice_figure
from ..train import check_history, load_about, load_state, save_state
from ..train import precision as precision_of
from ._cuts import Section, center, in_closure, profile, section, slice_through
from ._cuts import batched as batched
from ._grids import Grid, as_dataset, solution_grid, write_vtk
from ._network import harden, input_functions
from ._shown import shown

_KIND = "fkpinn solution"
_FRAME = 100  # nodes along an axis of a picture that moves


class Solution(eqx.Module):
    """A network that solves a problem: call it with a point, or with points, one per row.

    It works with `jax.jit`, `jax.grad` and `jax.vmap`; there points are not checked to lie in the
    domain. `stopped` says which phases of the training ended early, and why, and whether a target
    was reached. `certificate` is the record of the error measured by paths, if it was measured.
    `problem` is None for a solution that was loaded without it; such a solution has values and
    gradients only.
    """

    problem: Problem | None
    network: AbstractField
    history: list[dict[str, Any]]
    stopped: list[str]
    name: str = eqx.field(static=True)
    certificate: dict[str, Any] | None = eqx.field(static=True)
    layout: Layout
    bounds: Any = eqx.field(static=True)  # smallest and largest value of each coordinate

    def __init__(
        self,
        problem: Problem | None,
        network: AbstractField,
        history: list[dict[str, Any]] | None = None,
        stopped: list[str] | None = None,
        name: str = "",
        certificate: dict[str, Any] | None = None,
        *,
        layout: Layout | None = None,
        bounds: Any = None,
    ):
        if problem is None and (layout is None or bounds is None):
            raise ValueError("Without a `problem`, `layout` and `bounds` must be given.")
        self.problem, self.network = problem, network
        self.history, self.stopped = history or [], stopped or []
        self.name, self.certificate = name, certificate
        if problem is not None:
            layout, bounds = problem.layout, problem.bounds()
        assert layout is not None
        self.layout = layout
        self.bounds = tuple(tuple(map(float, np.asarray(corner))) for corner in bounds)

    # by identity, so that `jax.jit` can tell solutions apart
    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __call__(self, points: Any, **values: Any) -> Float[Array, "..."]:
        """Value at one point, or values at many.

        Args:
            points: one, or one per row; of a family, parameters come first if `values` has none.
            values: of all parameters of a family, by name; numbers, also those that `jax.grad`
                differentiates by.
        """
        return self._at(_value, self._whole(points, values))

    def gradient(self, points: Any, **values: Any) -> Float[Array, "..."]:
        """Gradient in space at one point, or at many; arguments as for values."""
        return self.layout.space(self._at(_slope, self._whole(points, values)))

    def at(self, **values: float) -> "Solution":
        """The solution of one problem of a family.

        Args:
            values: of all its parameters, within their ranges.
        """
        if not self.layout.parameters:
            raise ValueError("`at` is for families of problems; this one has no `parameters`.")
        given = self.layout.checked_values(values)
        problem = None if self.problem is None else self.problem.at(**values)
        bounds = tuple(np.asarray(corner)[self.layout.n_parameters :] for corner in self.bounds)
        with precision(precision_of(self.network)):
            network = AtValues(self.network, jnp.asarray(given, float))
        name = ", ".join([self.name, self.layout.spelled(given)]) if self.name else ""
        return Solution(problem, network, name=name, layout=self.layout.single, bounds=bounds)

    def _single(self) -> "Solution":
        """What can be drawn: itself, or of a family the solution in the middle of its ranges."""
        if not self.layout.parameters:
            return self
        names = [name for name, _ in self.layout.parameters]
        return self.at(**dict(zip(names, self.layout.middle().tolist(), strict=True)))

    def _whole(self, points: Any, values: Mapping[str, Any]) -> Any:
        """Points with their parameters in front."""
        if not values:
            return points
        traced = any(isinstance(given, Tracer) for given in (points, *values.values()))
        numbers: Any = jnp if traced else np
        self.layout.check_names(values)
        if not traced:
            self.layout.checked_values(values)
        rows = numbers.asarray(points, float)
        self._check_shape(rows, self.layout.single)
        own = [numbers.asarray(values[name], rows.dtype) for name, _ in self.layout.parameters]
        ahead = numbers.broadcast_to(numbers.stack(own), (*rows.shape[:-1], len(own)))
        return numbers.concatenate([ahead, rows], axis=-1)

    def _at(self, function: Callable[..., Any], points: Any) -> Array:
        """In the network's own precision; the result comes in the caller's."""
        if isinstance(points, Tracer):
            self._check_shape(points)
            dtype = jnp.result_type(float)
            network, array = cast(self.network, dtype), points.astype(dtype)
            return _at_each(function, network, array)
        wanted = jnp.result_type(float)
        with precision(precision_of(self.network)):
            array = jnp.asarray(np.asarray(points), float)
            self._check_points(array)
            found = np.asarray(_at_points(function, self.network, array))
        return jnp.asarray(found, wanted)

    def _check_shape(self, array: Any, layout: Layout | None = None) -> None:
        n = (layout or self.layout).n_coords
        if array.ndim not in (1, 2) or array.shape[-1] != n:
            raise ValueError(
                f"`points` must have shape ({n},) or (n, {n}); got shape {array.shape}."
            )

    def _check_points(self, array: Array) -> None:
        self._check_shape(array)
        rows = np.atleast_2d(np.asarray(array))
        if self.problem is None:
            lower, upper = map(np.asarray, self.bounds)
            slack = 1e-6 * (upper - lower)
            # NaN is not inside
            fine = np.all((rows >= lower - slack) & (rows <= upper + slack), axis=1)
            where = "the bounding box of the domain"
        else:
            fine = np.array(in_closure(self.problem.region, jnp.atleast_2d(array)))
            least, most = self.layout.ranges()
            slack, ahead = 1e-6 * (most - least), self.layout.values(rows)
            fine &= np.all((ahead >= least - slack) & (ahead <= most + slack), axis=1)
            where = "the closed domain"
            where += " and the ranges of the parameters" if len(least) else ""
        if not np.all(fine):
            raise ValueError(
                f"`points` must lie in {where}; {np.count_nonzero(~fine)} do not, the first at "
                f"{rows[int(np.argmin(fine))]}."
            )

    def _problem(self, wish: str) -> Problem:
        if self.problem is None:
            raise ValueError(
                f"`{wish}` needs the problem, but this solution was loaded without it, since a "
                f"file cannot store functions. Load it with `load(path, problem)`."
            )
        return self.problem

    def _repr_html_(self) -> str:
        """What notebooks show."""
        one = self._single()
        return shown(one.problem, one.network, one.name, self.stopped, self.certificate)

    def certify(self, **how: Any) -> Certificate:
        """Relative L2 error with confidence limits, by paths, without a reference.

        Args:
            how: as for `fkpinn.evaluate.certify`: `n_points`, `n_paths`, `seconds`, `seed`.
        """
        return certify(self._problem("certify"), self.network, **how)

    def value_with_interval(self, points: Any, **how: Any) -> Values:
        """Values corrected by paths, with confidence limits.

        Args:
            points: inside the domain, one per row, or a single one.
            how: as for `fkpinn.evaluate.value_with_interval`: `n_paths` or `half_width`, `seconds`.
        """
        rows = np.atleast_2d(np.asarray(points, float))
        return value_with_interval(self._problem("value_with_interval"), self.network, rows, **how)

    def gradient_with_interval(self, points: Any, **how: Any) -> Gradients:
        """Gradients corrected by paths, with confidence limits for each component.

        Args:
            points: inside the domain, one per row, or a single one; those of a family begin with
                its parameters.
            how: as for `fkpinn.evaluate.gradient_with_interval`: `by`, `n_paths` or `half_width`,
                `seconds`.
        """
        rows, problem = np.atleast_2d(np.asarray(points, float)), "gradient_with_interval"
        return gradient_with_interval(self._problem(problem), self.network, rows, **how)

    def plot(
        self,
        path: Path | str | None = None,
        *,
        axes: Sequence[int] | None = None,
        at: Mapping[int, float] | None = None,
        time: float | None = None,
        reference: AbstractReference | None = None,
        certificate: Certificate | None = None,
    ) -> Any:
        """Draw the solution.

        In one or two dimensions, over the whole domain; otherwise on a plane and along lines
        through the center of the problem's measure, and against the distance from it. `axes` and
        `at` choose another section.

        Args:
            path: path of the PNG file; without it the matplotlib figure is returned, which
                notebooks show.
            axes: indices of one or two axes of space, starting with 0.
            at: positions along other axes, by their indices: `{2: 0.5}`; the center by default.
            time: the time; by default the one farthest from the terminal (or initial) data.
            reference: a reference to draw as well, for example from `find_reference`.
            certificate: the result of `certify`; in three and more dimensions the values corrected
                by paths are drawn with their error bars.

        Returns:
            The path if there is one, else the figure.
        """
        if self.layout.parameters:
            if certificate is not None:
                raise ValueError(
                    "`certificate` is for the whole family, but the plot is of one problem; "
                    "choose one: `one = solution.at(...)`, `one.plot(certificate=one.certify())`."
                )
            one = self._single()
            return one.plot(path, axes=axes, at=at, time=time, reference=reference)
        problem = self._problem("plot")
        where = section(problem, axes, at, time)
        grid, values, exact = slice_through(problem, self.network, reference, where=where)
        if problem.dim <= 2 or axes is not None or at or time is not None:
            title = self._title(where, at, time)
            figure = slice_figure(title, grid, values, exact, names=where.names)
        else:
            fields = profile(problem, self.network, reference)
            if certificate is not None:
                fields |= corrections(problem, self.network, certificate)
            figure = profile_figure(self.name or problem.name, fields, plane=(grid, values))
        return figure if path is None else save_figure(figure, Path(path))

    def _title(self, where: Section, at: Mapping[int, float] | None, time: float | None) -> str:
        told = [f"$x_{{{axis + 1}}}$ = {where.at[axis]:.4g}" for axis in sorted(at or {})]
        told += [f"t = {where.time:.4g}"] if time is not None else []
        return ", ".join([self.name or self._problem("plot").name, *told])

    def animate(
        self,
        path: Path | str,
        *,
        axes: Sequence[int] | None = None,
        at: Mapping[int, float] | None = None,
        frames: int = 40,
        seconds: float = 4.0,
    ) -> Path:
        """Draw the solution as time runs, as a GIF.

        Args:
            path: path of the file, ending in `.gif`.
            axes: indices of one or two axes of space, starting with 0; the first ones by default.
            at: positions along other axes, by their indices; the center by default.
            frames: number of frames, at evenly spaced times from zero to the horizon.
            seconds: duration of the animation.
        """
        if self.layout.parameters:
            one = self._single()
            return one.animate(path, axes=axes, at=at, frames=frames, seconds=seconds)
        problem, path = self._problem("animate"), Path(path)
        if problem.horizon is None:
            raise ValueError("`animate` needs time, and this problem has no horizon; use `plot`.")
        if path.suffix.lower() != ".gif" or frames < 2 or not seconds > 0:
            raise ValueError(
                "`animate` needs a `path` ending in .gif, two `frames` or more and positive "
                f"`seconds`; got `{path.name}`, {frames} and {seconds}."
            )
        seen = []
        for time in np.linspace(0.0, problem.horizon, frames):
            where = section(problem, axes, at, float(time))
            seen.append((where, *slice_through(problem, self.network, None, _FRAME, where)[:2]))
        values = np.stack([found for *_, found in seen])
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        room = 0.05 * (high - low) if values.ndim == 2 else 0.0  # of a line
        figures = [
            slice_figure(
                self._title(where, at, where.time), grid, found,
                names=where.names, limits=(low - room, high + room),
            )
            for where, grid, found in seen
        ]  # fmt: skip
        return save_animation(figures, path, seconds)

    def to_xarray(self, **how: Any) -> Any:
        """Values and gradients on a grid, as an `xarray.Dataset`; NaN outside the domain.

        Args:
            how: `axes`, indices of up to three axes of space (the first ones by default); `at`,
                positions along the others; `times`, a list of times, or a single `time`; `nodes`,
                number of nodes along each axis; `intervals`, options of `value_with_interval` such
                as `{"n_paths": 256}`, which add `correction`, `low` and `high` from paths.
        """
        grid = self._grid("to_xarray", **how)
        others = [axis for axis in range(self.layout.dim) if axis not in grid.where.axes]
        about: dict[str, Any] = {"name": self.name or self._problem("to_xarray").name}
        about |= {f"x{axis + 1}": float(grid.where.at[axis]) for axis in others}
        if self.layout.timed and grid.times is None:
            about["time"] = grid.where.time
        if self.certificate is not None:
            for key in ("l2_rel", "ci_low", "ci_high", "level"):
                about[f"certificate_{key}"] = self.certificate[key]
        return as_dataset(grid, about)

    def to_vtk(self, path: Path | str, **how: Any) -> list[Path]:
        """Write values and gradients on a grid for ParaView, VisIt or pyvista.

        Args:
            path: a `.vtu` file; with `times` a `.pvd` file, next to which one `.vtu` file per time
                is written.
            how: as for `to_xarray`.

        Returns:
            The files.
        """
        return write_vtk(self._grid("to_vtk", **how), Path(path))

    def _grid(
        self,
        wish: str,
        *,
        axes: Sequence[int] | None = None,
        at: Mapping[int, float] | None = None,
        time: float | None = None,
        times: Sequence[float] | None = None,
        nodes: int | None = None,
        intervals: dict[str, Any] | None = None,
    ) -> Grid:
        if self.layout.parameters:
            raise ValueError(
                f"`{wish}` is for one problem of a family; choose one: `solution.at(...).{wish}()`."
            )
        problem = self._problem(wish)
        if time is not None and times is not None:
            raise ValueError(f"`{wish}` takes `time` or `times`; got {time!r} and {times!r:.80}.")
        for each in times or ():
            section(problem, axes, at, each, most=3)  # refuses what is no time
        where = section(problem, axes, at, time, most=3)
        corrected = None
        if intervals is not None:
            corrected = lambda points: self.value_with_interval(points, **intervals)[:3]
        return solution_grid(
            problem, self.network, where, nodes=nodes, times=times, corrected=corrected
        )

    def export(self, path: Path | str, *, dtype: str | None = None) -> Path:
        """Write the solution as StableHLO: a function of many points that does not need fkpinn.

        `jax.export.deserialize(bytearray(Path(path).read_bytes())).call(points)` gives the values
        at points of shape `(n, z)`, for any `n`, on CPUs and NVIDIA GPUs. Points are not checked to
        lie in the domain.

        Args:
            path: path of the file.
            dtype: precision of points and values, `float32` or `float64`; that of the network if
                not given.
        """
        dtype = precision_of(self.network) if dtype is None else dtype
        if dtype not in ("float32", "float64"):
            raise ValueError(f"`dtype` must be float32 or float64; got {dtype!r:.80}.")
        with precision(dtype):
            network = cast(self.network, dtype)
            function = jax.jit(lambda points: _at_each(_value, network, points))
            (n,) = jax.export.symbolic_shape("n")
            points = jax.ShapeDtypeStruct((n, self.layout.n_coords), jnp.dtype(dtype))
            found = jax.export.export(function, platforms=("cpu", "cuda"))(points)
        try:
            content = bytes(found.serialize())
        except ImportError as error:
            raise ImportError(
                '`export` needs flatbuffers: pip install "fkpinn[export]", or pip install '
                "flatbuffers."
            ) from error
        write_bytes(Path(path), content)
        return Path(path)

    def save(self, path: Path | str) -> None:
        """Write a file that `load` reads; nothing in it can run code."""
        hard = isinstance(self.network, AbstractHard)
        plain = self.network.network if isinstance(self.network, AbstractHard) else self.network
        if not isinstance(plain, MLP):
            raise TypeError(
                f"`save` supports `MLP`, with or without boundary data built in; got "
                f"{type(plain).__name__}. Use `equinox.tree_serialise_leaves` for your own "
                f"networks."
            )
        problem = self._problem("save")
        lower, upper = problem.bounds()
        if not np.allclose(plain.center, 0.5 * (lower + upper)):
            raise ValueError(
                "`save` needs a network whose inputs are scaled to the bounds of its problem."
            )
        about = {
            "kind": _KIND,
            "name": self.name,
            "fingerprint": [None if np.isnan(v) else v for v in fingerprint(problem).tolist()],
            "layout": {
                "dim": self.layout.dim,
                "horizon": self.layout.horizon,
                "forward": self.layout.forward,
                "parameters": [
                    [name, law.lower, law.upper, law.log] for name, law in self.layout.parameters
                ],
            },
            "hard": hard,
            "center": plain.center,
            "half_width": plain.half_width,
            "widths": [len(b) for b in plain.biases[:-1]],
            "features": plain.features,
            "inputs": _numbered(problem, plain.further),
            "output_scale": plain.output_scale.typical,
            "growth": plain.output_scale.growth,
            "dtype": str(plain.weights[0].dtype),
            "history": self.history,
            "stopped": self.stopped,
            "certificate": self.certificate,
        }
        save_state(Path(path), plain, about)


def corrections(
    problem: Problem, network: AbstractField, certificate: Certificate
) -> dict[str, np.ndarray]:
    """The error of the network at each point, measured by paths, for figures.

    Its own values come with them where points have no time, which would not fit a picture at one.
    """
    found = certificate.corrections
    low, high = found.interval(certificate.level)
    points = np.asarray(found.points, np.float64)
    arrays = {
        "found_points": problem.layout.space(points), "found_value": np.asarray(found.value),
        "found_low": np.asarray(low), "found_high": np.asarray(high),
    }  # fmt: skip
    if problem.dim > 2:  # no map: distances are drawn
        arrays["center"] = center(problem)
    if not problem.timed:
        with precision("float64"):
            arrays["found_network"] = np.asarray(batched(network, jnp.asarray(points)))
    return arrays


def load(path: Path | str, problem: Problem | None = None) -> Solution:
    """Read a solution that `Solution.save` wrote.

    Args:
        path: the file.
        problem: the problem it solves; not needed for problems of the catalogue. A file cannot
            store functions, so without the problem the solution has values and gradients, but no
            certificates. A problem that is passed is checked to be the same.
    """
    path = Path(path)
    about = load_about(path)
    if about.get("kind") != _KIND:
        raise ValueError(f"`{path}` is not a solution but another file of fkpinn.")
    with reading(path):
        for key, kind in (("name", str), ("hard", bool), ("certificate", (dict, type(None)))):
            if not isinstance(about.get(key), kind):
                raise ValueError(f"`{key}` is {about.get(key)!r:.80}")
        layout = _layout(about["layout"])
        stored = np.array([np.nan if v is None else v for v in about["fingerprint"]], float)
        history, stopped = about["history"], about["stopped"]
        check_history(history, stopped)
        name, certificate = about["name"], about.get("certificate")
    given, problem = problem is not None, problem or _catalogued(name)
    if problem is not None and not same_problem(problem, stored):
        if given:
            raise ValueError(
                f"`{path}` contains the solution of a different problem: coefficients, domain or "
                f"boundary data differ."
            )
        problem = None  # one's own problem, under a name of the catalogue
    if problem is None and (about["hard"] or about.get("inputs")):
        raise ValueError(
            f"`{path}` contains a network with boundary data of the problem {name!r:.80} built "
            f"in. That problem is not in the catalogue, and a file cannot store functions. Pass "
            f"the problem: `load(path, problem)`."
        )
    with reading(path):
        plain = _empty_network(about, layout, problem, path.stat().st_size)
    with precision(about["dtype"]):
        plain = load_state(path, plain)
        if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(plain)):
            raise ValueError(f"`{path}` is damaged: a parameter is not a finite number.")
    network = harden(problem, plain) if problem is not None and about["hard"] else plain
    center, half = np.asarray(plain.center), np.asarray(plain.half_width)
    bounds = center - half, center + half
    return Solution(
        problem, network, history, stopped, name, certificate, layout=layout, bounds=bounds
    )


def _catalogued(name: str) -> Problem | None:
    try:
        return catalogue(name).problem
    except ValueError:
        return None


def _layout(about: Any) -> Layout:
    dim, horizon, forward = about["dim"], about["horizon"], about["forward"]
    if type(dim) is not int or not 1 <= dim < 2**20 or type(forward) is not bool:
        raise ValueError(f"`layout` is {about!r:.80}")
    if horizon is not None and not (type(horizon) in (int, float) and 0 < horizon < math.inf):
        raise ValueError(f"`layout` is {about!r:.80}")
    return Layout(dim, None if horizon is None else float(horizon), forward, _ranges(about))


def _ranges(about: Any) -> tuple[tuple[str, Parameter], ...]:
    """Parameters of a family; laws that are functions are not in the file."""
    found = []
    for name, lower, upper, log in about.get("parameters", ()):
        numbers = all(type(value) in (int, float) for value in (lower, upper))
        if type(name) is not str or not numbers or type(log) is not bool:
            raise ValueError(f"`layout` is {about!r:.80}")
        found.append((name, Parameter(lower, upper, log)))
    return tuple(found)


def _numbered(problem: Problem, inputs: Sequence[Input]) -> list[tuple[int, float, float]]:
    """Which functions of the problem a network reads, and how they are scaled."""
    known = input_functions(problem)
    if any(each.function not in known for each in inputs):
        raise ValueError(
            "`save` supports additional network inputs only if they are derived from the problem."
        )
    return [(known.index(each.function), each.center, each.half_width) for each in inputs]


def _inputs(about: dict[str, Any], problem: Problem | None) -> list[Input]:
    """Further inputs of a network, the functions from its problem."""
    known = [] if problem is None else input_functions(problem)
    found = []
    for which, middle, width in about.get("inputs", ()):
        numbers = all(type(value) in (int, float) for value in (middle, width))
        if type(which) is not int or not 0 <= which < len(known) or not numbers:
            raise ValueError(f"`inputs` is {about['inputs']!r:.80}")
        if not (math.isfinite(middle) and 0 < width < math.inf):
            raise ValueError("the scale of a further input is not finite and positive")
        found.append(Input(known[which], float(middle), float(width)))
    return found


def _empty_network(
    about: dict[str, Any], layout: Layout, problem: Problem | None, n_bytes: int
) -> MLP:
    """A network of the shape the file tells, before its parameters are read."""
    widths = about["widths"]
    if not (isinstance(widths, list) and all(type(w) is int and w > 0 for w in widths)):
        raise ValueError(f"`widths` is {widths!r:.80}")
    features = tuple(tuple(float(v) for v in row) for row in about.get("features", ()))
    center, half = (np.asarray(about[key], float) for key in ("center", "half_width"))
    if center.shape != half.shape or center.shape != (layout.n_coords,) or not np.all(half > 0):
        raise ValueError("the inputs are scaled to another domain")
    further = _inputs(about, problem)
    sizes = [layout.n_coords + 2 * len(features) + len(further), *widths, 1]
    if sum(a * b for a, b in itertools.pairwise(sizes)) > n_bytes:
        raise ValueError(
            f"`widths` is {widths!r:.80}, and the file is too small for so many numbers"
        )
    if about["dtype"] not in ("float32", "float64"):
        raise ValueError(f"`dtype` is {about['dtype']!r:.80}")
    if not 0 < about["output_scale"] < math.inf:
        raise ValueError(f"`output_scale` is {about['output_scale']!r:.80}")
    if not (np.all(np.isfinite(center)) and np.all(np.isfinite(half))):
        raise ValueError("the scale of the inputs is not finite")
    with precision(about["dtype"]):
        network = MLP(
            center - half,
            center + half,
            widths,
            frequencies=features or None,
            further=further,
            output_scale=_size(about, layout, center, half),
            dtype=jnp.dtype(about["dtype"]),
            key=Stream(0).key,
        )
    # to the last bit, which center and half-width from corners may lose
    for name, numbers in (("center", center), ("half_width", half)):
        object.__setattr__(network, name, tuple(map(float, numbers)))  # it is ours alone so far
    return network


def _size(about: dict[str, Any], layout: Layout, center: np.ndarray, half: np.ndarray) -> Size:
    """The size of the output, which parameters may change."""
    growth = tuple(tuple(map(float, row)) for row in about.get("growth", ()))
    n, finite = len(growth), all(math.isfinite(v) for row in growth for v in row)
    if n not in (0, len(layout.parameters)) or len(set(map(len, growth))) > 1 or not finite:
        raise ValueError(f"`growth` is {about['growth']!r:.80}")
    scale = tuple(map(float, center[:n])), tuple(map(float, half[:n]))
    return Size(float(about["output_scale"]), growth, *scale)


def _value(network: AbstractField, z: Array) -> Array:
    return network(z)


def _slope(network: AbstractField, z: Array) -> Array:
    return jax.grad(lambda at: network(at))(z)


def _at_each(function: Callable[..., Any], network: AbstractField, array: Array) -> Array:
    """Of a network and one point, at one or at many."""
    one = lambda z: function(network, z)
    return jax.vmap(one)(array) if array.ndim == 2 else one(array)


_at_points = quickly_compiled(_at_each)
