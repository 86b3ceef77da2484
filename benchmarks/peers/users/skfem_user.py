"""The problems as a user of scikit-fem writes them: quadratic elements, meshes refined in turn.

Lines after `# --- all` are needed for every problem, those after its name for one; lines of the
benchmark end in `# clock`.
"""

# --- all
import numpy as np
import skfem as fem
from skfem.helpers import dot, grad

# --- benchmark
COUNT = 8  # of meshes, at most
MOST = 70_000  # unknowns where the matrix is unsymmetric: four times as many take over 20 GiB


def note(clock, basis, u):
    """Error on this mesh; no tool in the package says how large it may be."""
    clock.note(lambda x: probed(basis, u, x), unknowns=int(u.size))


def probed(basis, u, x):
    """Values at points; those of arcs are looked up in the straight mesh with the same nodes."""
    if isinstance(basis.mesh, fem.MeshTri2):
        mesh = basis.mesh
        straight = fem.MeshTri(mesh.doflocs[:, : mesh.t.max() + 1], mesh.t)
        basis = fem.Basis(straight, basis.elem)
    return basis.probes(x.T) @ u


def goes_on(clock, most=float("inf")):
    """Whether the next mesh, up to eight times as dear, still fits, also into memory."""
    small = not clock.curve or 4 * clock.curve[-1]["unknowns"] < most
    return small and len(clock.curve) < COUNT and clock.seconds() < clock.budget / 8


# --- poisson
def poisson(seed, clock):
    modes = ((3.0, 1, 4), (6.0, 5, 1), (3.0, 2, 2), (4.0, 5, 6))

    @fem.BilinearForm
    def stiffness(u, v, w):
        return dot(grad(u), grad(v))

    @fem.LinearForm
    def load(v, w):
        wave = lambda j, k: np.sin(j * np.pi * w.x[0]) * np.sin(k * np.pi * w.x[1])
        return sum(a * np.pi**2 * (j**2 + k**2) * wave(j, k) for a, j, k in modes) * v

    mesh = fem.MeshTri().refined(3)
    while goes_on(clock):  # clock
        mesh = mesh.refined()
        basis = fem.Basis(mesh, fem.ElementTriP2())
        matrix, right = stiffness.assemble(basis), load.assemble(basis)
        u = fem.solve(*fem.condense(matrix, right, D=basis.get_dofs()))
        note(clock, basis, u)  # clock


# --- schrodinger
def schrodinger(seed, clock):
    @fem.BilinearForm
    def energy(u, v, w):
        potential = -5 * (np.cos(4 * np.pi * w.x[0]) + np.cos(4 * np.pi * w.x[1]))
        return 0.5 * dot(grad(u), grad(v)) + potential * u * v

    @fem.LinearForm
    def load(v, w):
        return 50 * np.sin(5 * w.x[0]) * np.sin(5 * w.x[1]) * v

    mesh = fem.MeshTri.init_tensor(np.linspace(-1, 1, 9), np.linspace(-1, 1, 9))
    while goes_on(clock):  # clock
        mesh = mesh.refined()
        basis = fem.Basis(mesh, fem.ElementTriP2())
        matrix, right = energy.assemble(basis), load.assemble(basis)
        u = fem.solve(*fem.condense(matrix, right, D=basis.get_dofs()))
        note(clock, basis, u)  # clock


# --- met
def met(seed, clock):
    angles = np.arange(6) * np.pi / 3
    corners = 2 * np.array([np.cos(angles), np.sin(angles)])
    triangles = np.array([(0, k + 1, (k + 1) % 6 + 1) for k in range(6)]).T

    @fem.BilinearForm
    def generator(u, v, w):
        slope = w.x[0] * (w.x[0] ** 2 - 1) * grad(u)[0] + w.x[1] * grad(u)[1]
        return dot(grad(u), grad(v)) / 5.0 + slope * v

    @fem.LinearForm
    def load(v, w):
        return 1.0 * v

    mesh = fem.MeshTri(np.hstack([np.zeros((2, 1)), corners]), triangles).refined(3)
    while goes_on(clock):  # clock
        mesh = mesh.refined()
        basis = fem.Basis(mesh, fem.ElementTriP2())
        matrix, right = generator.assemble(basis), load.assemble(basis)
        u = fem.solve(*fem.condense(matrix, right, D=basis.get_dofs()))
        note(clock, basis, u)  # clock


# --- committor
import gmsh  # noqa: E402

CENTERS, RADIUS = np.array([[-0.5582, 1.4417], [0.6235, 0.0281]]), 0.2
HEIGHTS = (
    (-200.0, -1.0, 0.0, -10.0, 1.0, 0.0), (-100.0, -1.0, 0.0, -10.0, 0.0, 0.5),
    (-170.0, -6.5, 11.0, -6.5, -0.5, 1.5), (15.0, 0.7, 0.6, 0.7, -1.0, 1.0),
)  # fmt: skip


def mesh_with_holes(size):
    gmsh.initialize(["", "-v", "0"])
    box = gmsh.model.occ.addRectangle(-1.5, -0.2, 0, 2.7, 2.2)
    holes = [(2, gmsh.model.occ.addDisk(*c, 0, RADIUS, RADIUS)) for c in CENTERS]
    gmsh.model.occ.cut([(2, box)], holes)
    gmsh.model.occ.synchronize()
    gmsh.option.setNumber("Mesh.MeshSizeMax", size)
    gmsh.model.mesh.generate(2)
    tags, points, _ = gmsh.model.mesh.getNodes()
    number = np.zeros(int(tags.max()) + 1, int)
    number[tags.astype(int)] = np.arange(len(tags))
    corners = gmsh.model.mesh.getElementsByType(2)[1].astype(int).reshape(-1, 3)
    gmsh.finalize()
    mesh = fem.MeshTri(points.reshape(-1, 3)[:, :2].T.copy(), number[corners].T.copy())
    curved = fem.MeshTri2.from_mesh(mesh)
    for c in CENTERS:  # edges of the disks become arcs
        away = curved.doflocs - c[:, None]
        far = np.linalg.norm(away, axis=0)
        near = np.abs(far - RADIUS) < 0.3 * size**2 / RADIUS
        near[: mesh.p.shape[1]] = False
        edges = mesh.f2t[1] < 0
        near[mesh.p.shape[1] :] &= edges
        curved.doflocs[:, near] = c[:, None] + RADIUS * away[:, near] / far[near]
    return curved


def committor(seed, clock):
    @fem.BilinearForm
    def energy(u, v, w):
        height = 0.0
        for h, a, b, c, p, q in HEIGHTS:
            dx, dy = w.x[0] - p, w.x[1] - q
            height = height + h * np.exp(a * dx**2 + b * dx * dy + c * dy**2)
        return np.exp(-0.05 * np.minimum(height, 4000.0)) * dot(grad(u), grad(v))

    for size in 0.16 / 2.0 ** np.arange(8):
        if not goes_on(clock):  # clock
            break  # clock
        mesh = mesh_with_holes(size)
        basis = fem.Basis(mesh, fem.ElementTriP2())
        near = lambda k: lambda x: abs(np.hypot(*(x - CENTERS[k][:, None])) - RADIUS) < 0.04
        sides = [mesh.facets_satisfying(near(k), boundaries_only=True) for k in (0, 1)]
        zero, one = basis.get_dofs(sides[0]), basis.get_dofs(sides[1])
        u = basis.zeros()
        u[one] = 1.0
        matrix = energy.assemble(basis)
        u = fem.solve(*fem.condense(matrix, x=u, D=np.concatenate([zero, one])))
        note(clock, basis, u)  # clock


# --- convection-layer
def convection_layer(seed, clock):
    low = np.exp(-50.0)

    @fem.BilinearForm
    def transport(u, v, w):
        return 0.02 * dot(grad(u), grad(v)) + grad(u)[0] * v

    @fem.LinearForm
    def load(v, w):
        wave = np.sin(np.pi * w.x[1])
        profile = w.x[0] - (np.exp(50 * (w.x[0] - 1)) - low) / (1 - low)
        return (wave + 0.02 * np.pi**2 * profile * wave) * v

    # half of the cells in the layer, which is some widths wide
    coarse = np.concatenate([np.linspace(0, 0.85, 5), np.linspace(0.85, 1, 5)[1:]])
    mesh = fem.MeshTri.init_tensor(coarse, np.linspace(0, 1, 9))
    while goes_on(clock, MOST):  # clock
        mesh = mesh.refined()
        basis = fem.Basis(mesh, fem.ElementTriP2())
        matrix, right = transport.assemble(basis), load.assemble(basis)
        u = fem.solve(*fem.condense(matrix, right, D=basis.get_dofs()))
        note(clock, basis, u)  # clock


# --- heat2d-ms
from scipy.sparse.linalg import splu  # noqa: E402


def heat2d_ms(seed, clock):
    @fem.BilinearForm
    def mass(u, v, w):
        return u * v

    @fem.BilinearForm
    def spread(u, v, w):
        fast, slow = grad(u)[0] * grad(v)[0], grad(u)[1] * grad(v)[1]
        return fast / (500 * np.pi) ** 2 + slow / np.pi**2

    start = lambda x: np.sin(20 * np.pi * x[0]) * np.sin(np.pi * x[1])
    for count in 2 ** np.arange(8):
        if not goes_on(clock):  # clock
            break  # clock
        across, up = np.linspace(0, 1, 40 * count + 1), np.linspace(0, 1, 4 * count + 1)
        basis = fem.Basis(fem.MeshQuad.init_tensor(across, up), fem.ElementQuad2())
        inner = basis.complement_dofs(basis.get_dofs())
        times = np.linspace(0, 5, 40 * count + 1)
        keep, change = mass.assemble(basis), 0.5 * times[1] * spread.assemble(basis)
        forward = (keep - change)[inner][:, inner]
        solver = splu((keep + change)[inner][:, inner].tocsc())
        states = [basis.project(start)]
        states[0][basis.get_dofs()] = 0.0
        for _ in times[1:]:  # Crank and Nicolson
            states.append(basis.zeros())
            states[-1][inner] = solver.solve(forward @ states[-2][inner])
        note_in_time(clock, basis, times, np.array(states))  # clock


# --- benchmark


def note_in_time(clock, basis, times, states):
    """Between two times the values are interpolated, by four of them."""

    def predict(points):
        from scipy.interpolate import CubicSpline

        values = np.empty(len(points))
        order = np.argsort(points[:, 0])
        for part in np.array_split(order, 64):
            low, high = np.searchsorted(times, points[part[[0, -1]], 0])
            rows = slice(max(0, low - 4), min(len(times), high + 4))
            at = basis.probes(points[part, 1:].T) @ states[rows].T
            spline = CubicSpline(times[rows], at, axis=1)
            values[part] = [float(spline(t)[k]) for k, t in enumerate(points[part, 0])]
        return values

    clock.note(predict, unknowns=int(states.size))


# --- poisson-5d
def poisson_5d(seed, clock):
    return {"note": "not possible: mesh"}


# --- laplace-10d
def laplace_10d(seed, clock):
    return {"note": "not possible: mesh"}
