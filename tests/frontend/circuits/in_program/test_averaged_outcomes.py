"""Circuits whose outcomes a density matrix averages, against all branches by NumPy."""

import io
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

N_WIRES, X = 3, 0.7
AVERAGED = "in the program: a density matrix is cheaper than all"


class Program:
    """Applies a circuit in a quantum function."""

    measure = staticmethod(bellhop.measure)

    def gate(self, op: Any) -> None:
        """The quantum function has queued the operation already."""

    def cond(self, holds: Any, if_true: Callable[[], None], otherwise: Any = None) -> None:
        conditional = bellhop.cond(holds)(if_true)
        if otherwise is not None:
            conditional.otherwise(otherwise)
        conditional()

    def loop(self, n: int, body: Callable[[Any], None]) -> None:
        bellhop.for_loop(0, n, 1)(body)()

    def mean(self) -> Any:
        return qml.expval(qml.Z(0) @ qml.Y(1)), qml.var(qml.X(2)), qml.probs(wires=[2, 0])


class Branches:
    """Applies a circuit to the state of each combination of outcomes, ``[branches, 2, 2, 2]``."""

    def __init__(self) -> None:
        self.states = np.zeros((1, *(2,) * N_WIRES), complex)
        self.states[0, 0, 0, 0] = 1
        self.holds: Any = None
        self.n_outcomes = 0

    def _apply(self, matrix: np.ndarray, wires: Any) -> np.ndarray:
        k = len(wires)
        axes = [1 + wire for wire in wires]
        after = np.tensordot(matrix.reshape((2,) * (2 * k)), self.states, (range(k, 2 * k), axes))
        return np.moveaxis(after, range(k), axes)

    def gate(self, op: Any) -> None:
        after = self._apply(qml.matrix(op, wire_order=op.wires), list(op.wires))
        holds = np.ones(len(after), bool) if self.holds is None else self.holds
        self.states = np.where(holds[:, None, None, None], after, self.states)

    def measure(self, wire: int, reset: bool = False) -> "Outcome":
        parts = []
        for outcome in (0, 1):
            projector = np.zeros((2, 2))
            projector[0 if reset else outcome, outcome] = 1
            parts.append(self._apply(projector, [wire]))
        self.states = np.concatenate(parts)
        # The last outcome is the slowest index of the branches.
        bit = self.n_outcomes
        self.n_outcomes += 1
        return Outcome(lambda: (np.arange(len(self.states)) >> bit & 1).astype(bool))

    def cond(self, holds: Any, if_true: Callable[[], None], otherwise: Any = None) -> None:
        now = holds.read() if isinstance(holds, Outcome) else np.full(len(self.states), holds)
        for self.holds, branch in ((now, if_true), (~now, otherwise)):
            if branch is not None:
                branch()
        self.holds = None

    def loop(self, n: int, body: Callable[[Any], None]) -> None:
        for i in range(n):
            body(i)

    def mean(self) -> Any:
        rho = np.einsum("nabc,ndef->abcdef", self.states, self.states.conj()).reshape(8, 8)
        observables = [qml.Z(0) @ qml.Y(1), qml.X(2)]
        means = [np.trace(rho @ qml.matrix(o, wire_order=range(3))).real for o in observables]
        probs = np.diag(rho).real.reshape(2, 2, 2).sum(1).T.reshape(-1)
        return np.hstack([means[0], 1 - means[1] ** 2, probs])


class Outcome:
    """The outcome of a measurement in each branch.

    Args:
        read: returns the outcome of each of the present branches.
    """

    def __init__(self, read: Callable[[], np.ndarray]) -> None:
        self.read = read

    def __and__(self, other: "Outcome") -> "Outcome":
        return Outcome(lambda: self.read() & other.read())

    def __xor__(self, other: "Outcome") -> "Outcome":
        return Outcome(lambda: self.read() ^ other.read())


def straight(x: Any, api: Any) -> None:
    for i in range(10):
        a, b, c = i % 3, (i + 1) % 3, (i + 2) % 3
        api.gate(qml.RX(x + i, a))
        api.gate(qml.CNOT([a, b]))
        m = api.measure(a)
        api.gate(qml.RZ(x, b))
        api.cond(m, lambda b=b: api.gate(qml.RY(2 * x, b)), lambda c=c: api.gate(qml.Hadamard(c)))


def loop(x: Any, api: Any) -> None:
    def body(i: Any) -> None:
        api.gate(qml.Rot(x, 0.3 * x, 1.0, 0))
        api.gate(qml.IsingXY(x * (i + 1), [0, 2]))
        m = api.measure(0, reset=True)
        api.gate(qml.RX(x, 1))
        api.cond(m, lambda: api.gate(qml.CRY(x, [1, 2])))

    api.loop(10, body)


def several_outcomes(x: Any, api: Any) -> None:
    for i in range(5):
        api.gate(qml.RX(x + i, 0))
        api.gate(qml.RY(2 * x, 1))
        api.gate(qml.CNOT([1, 2]))
        m0, m1 = api.measure(0, reset=i % 2 == 0), api.measure(1, reset=i == 3)
        api.cond(m0 & m1, lambda: api.gate(qml.PhaseShift(x, 2)))
        api.cond(m0 ^ m1, lambda: api.gate(qml.U3(x, 0.2, x, 2)))
        api.gate(qml.CNOT([2, 0]))


def nested(x: Any, api: Any) -> None:
    def body(_: Any) -> None:
        api.gate(qml.RX(x, 0))
        api.gate(qml.CRX(x, [0, 1]))
        api.measure(0)
        api.loop(2, inner)

    def inner(i: Any) -> None:
        api.gate(qml.RY(x + i, 2))
        m = api.measure(2)
        api.cond(m, lambda: api.gate(qml.SWAP([0, 1])))

    api.loop(4, body)
    api.gate(qml.adjoint(qml.S(1)))


CIRCUITS = {each.__name__: each for each in (straight, loop, several_outcomes, nested)}


def compute_by_numpy(circuit: Any, x: float) -> np.ndarray:
    branches = Branches()
    circuit(x, branches)
    return branches.mean()


def on(device: str, circuit: Any, device_options: Any = None, **options: Any) -> Any:
    """Return the results of a circuit as a function of an angle."""

    @qml.qnode(qml.device(device, wires=N_WIRES, **(device_options or {})), **options)
    def qnode(x: Any) -> Any:
        api = Program()
        circuit(x, api)
        return api.mean()

    return lambda x: jnp.hstack(qnode(x))


def differentiate_by_numpy(circuit: Any, x: float) -> np.ndarray:
    ends = [compute_by_numpy(circuit, x + step) for step in (1e-5, -1e-5)]
    return (ends[0] - ends[1]) / 2e-5


def read_plan(f: Any, x: Any = X) -> str:
    """Return the lines that `verbose` prints about the execution of a program."""
    log = io.StringIO()
    bellhop.qjit(f, verbose=True, logfile=log)(x)
    return log.getvalue()


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("straight", "lightning.qubit"),
        ("loop", "lightning.qubit"),
        ("several_outcomes", "default.qubit"),
        ("nested", "default.qubit"),
    ],
)
def test_values_and_derivatives(name: str, device: str) -> None:
    circuit = CIRCUITS[name]
    f = on(device, circuit)
    program = bellhop.qjit(lambda x: jax.jvp(f, (x,), (1.0,)))
    value, slope = program(X)
    assert f'"{AVERAGED}' in program.mlir
    np.testing.assert_allclose(value, compute_by_numpy(circuit, X), atol=1e-12)
    np.testing.assert_allclose(slope, differentiate_by_numpy(circuit, X), atol=1e-8)


@pytest.mark.parametrize("name", ["straight", "loop"])
def test_gradients_of_rows(name: str) -> None:
    circuit, xs = CIRCUITS[name], [0.3, 1.1]
    first = lambda x: on("default.mixed", circuit)(x)[0]
    slopes = bellhop.qjit(jax.vmap(jax.grad(first)))(jnp.array(xs))
    expected = [differentiate_by_numpy(circuit, x)[0] for x in xs]
    np.testing.assert_allclose(slopes, expected, atol=1e-8)


def test_single_precision() -> None:
    options = {"c_dtype": np.complex64}
    for f in (
        bellhop.qjit(on("lightning.qubit", straight), precision="single"),
        bellhop.qjit(on("lightning.qubit", straight, device_options=options)),
    ):
        value = f(X)
        assert AVERAGED in f.mlir
        assert "single precision" in f.mlir
        np.testing.assert_allclose(value, compute_by_numpy(straight, X), atol=1e-5)


def test_nested_programs_and_drawings() -> None:
    inner = bellhop.qjit(on("lightning.qubit", straight))
    outer = bellhop.qjit(lambda x: 2 * inner(x))
    np.testing.assert_allclose(outer(X), 2 * compute_by_numpy(straight, X), atol=1e-12)
    assert AVERAGED in outer.mlir
    assert AVERAGED in bellhop.draw(outer)(X).mermaid
    assert AVERAGED in read_plan(on("lightning.qubit", straight))


def outcome_as_angle(x: Any, api: Any) -> None:
    straight(x, api)
    m = api.measure(0)
    qml.RX(x * m, 1)


def wire_is_turned(x: Any, api: Any) -> None:
    straight(x, api)
    m = api.measure(0)
    qml.RX(x, 0)
    api.cond(m, lambda: api.gate(qml.RY(x, 1)))


def postselection(x: Any, api: Any) -> None:
    straight(x, api)
    bellhop.measure(0, postselect=1)


def infinite_branch(x: Any, api: Any) -> None:
    straight(x, api)
    m = api.measure(0)
    api.cond(m, lambda: api.gate(qml.RY(1 / x, 1)))


def while_loop(x: Any, api: Any) -> None:
    straight(x, api)

    def body(y: Any) -> Any:
        qml.RX(y, 0)
        bellhop.measure(0)
        return y + 0.4

    bellhop.while_loop(lambda y: y < 1.0)(body)(x)


AS_BEFORE: dict[str, tuple[Any, dict[str, Any]]] = {
    "outcome as an angle": (outcome_as_angle, {}),
    "measured wire is turned": (wire_is_turned, {}),
    "postselection": (postselection, {}),
    "a branch that may be infinite": (infinite_branch, {}),
    "while loop": (while_loop, {}),
    "mcm_method": (straight, {"mcm_method": "tree-traversal"}),
    "adjoint": (straight, {"diff_method": "adjoint"}),
    "few outcomes": (lambda x, api: api.measure(0), {}),
}


@pytest.mark.parametrize("name", AS_BEFORE)
def test_other_circuits_stay_in_the_engine(name: str) -> None:
    circuit, options = AS_BEFORE[name]
    plan = read_plan(on("lightning.qubit", circuit, **options))
    assert "is executed by the engine" in plan


def test_shots_and_returned_outcomes_stay_in_the_engine() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=N_WIRES))
    def returned(x: Any) -> Any:
        straight(x, Program())
        return qml.expval(bellhop.measure(0))

    assert "the engine, outcomes all" in read_plan(returned)
    assert "the engine, outcomes" in read_plan(qml.set_shots(returned, 10))


def test_channel_with_a_traced_probability():
    """A channel's parameter, unlike an angle, must be in [0, 1]."""

    @qml.qnode(qml.device("default.mixed", wires=2))
    def circuit(p):
        for _ in range(3):
            qml.RX(p, 0)
            qml.DepolarizingChannel(p, 0)
            bellhop.cond(bellhop.measure(0), lambda: qml.RY(p, 1))()
        return qml.expval(qml.Z(1))

    @qml.qnode(qml.device("default.mixed", wires=5))
    def deferred(p):
        for number in range(3):
            qml.RX(p, 0)
            qml.DepolarizingChannel(p, 0)
            qml.CNOT([0, 2 + number])
            qml.CRY(p, [2 + number, 1])
        return qml.expval(qml.Z(1))

    np.testing.assert_allclose(bellhop.qjit(circuit)(0.2), deferred(0.2), atol=1e-12)
