"""Gates of many numbers, and many gates in a Python loop.

A state of 20 qubits that is prepared from an argument, in double and single precision; matrices on
8 of 16 qubits, five in a row; a diagonal on 12 qubits; 10,000 gates that a Python loop applies, of
which the compile time counts.  The JAX column is default.qubit under `jax.jit`, which takes minutes
to compile the 10,000 gates and has no row there.

Limit: a copy of the amplitudes; the products of the matrices alone; none that is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.case import LIMIT, Case, Program, Target, synchronous

QUBITS, WIDE, MATRIX, DIAGONAL = 20, 16, 8, 12
MATRICES, GATES = 5, 10_000


def _amplitudes(dtype: str) -> Any:
    import jax.numpy as jnp
    import numpy as np

    draw = np.random.default_rng(0)
    numbers = draw.normal(size=(2, 2**QUBITS))
    amplitudes = numbers[0] + 1j * numbers[1]
    return jnp.asarray((amplitudes / np.linalg.norm(amplitudes)).astype(dtype))


def _matrix() -> Any:
    import jax.numpy as jnp
    import numpy as np

    draw = np.random.default_rng(1)
    numbers = draw.normal(size=(2, 2**MATRIX, 2**MATRIX))
    return jnp.asarray(np.linalg.qr(numbers[0] + 1j * numbers[1])[0])


def _diagonal() -> Any:
    import jax.numpy as jnp

    return jnp.exp(1j * jnp.linspace(0.0, 1.0, 2**DIAGONAL))


def _prepare(state: Any) -> None:
    import pennylane as qml

    qml.StatePrep(state, wires=range(QUBITS), validate_norm=False)
    qml.RX(0.3, 0)


def _multiply(matrix: Any) -> None:
    import pennylane as qml

    # default.qubit leaves out the qubits that no gate acts on.
    for wire in range(WIDE):
        qml.RX(0.3, wire)
    for _ in range(MATRICES):
        qml.QubitUnitary(matrix, wires=range(MATRIX))


def _turn(diagonal: Any) -> None:
    import pennylane as qml

    qml.Hadamard(0)
    qml.DiagonalQubitUnitary(diagonal, wires=range(DIAGONAL))


def _loop(angles: Any) -> None:
    import pennylane as qml

    for number in range(GATES):
        qml.RX(angles[number % 8], wires=number % 4)


def _circuit(device: str, wires: int, gates: Callable[[Any], None], **options: Any) -> Any:
    """Return a QNode that measures X after gates; `options` are options of the device."""
    import pennylane as qml

    @qml.qnode(qml.device(device, wires=wires, **options))
    def circuit(numbers: Any) -> Any:
        gates(numbers)
        return qml.expval(qml.X(0))

    return circuit


def _bellhop(wires: int, gates: Callable[[Any], None], argument: Callable[[], Any]) -> Program:
    import numpy as np

    import bellhop

    given = argument()
    # The state has the type of the amplitudes, as the copy does.
    single = {"c_dtype": np.complex64} if given.dtype == np.complex64 else {}
    circuit = _circuit("lightning.qubit", wires, gates, **single)
    return synchronous(bellhop.qjit(circuit), given)


def _jax(wires: int, gates: Callable[[Any], None], argument: Callable[[], Any]) -> Program:
    import jax

    return synchronous(jax.jit(_circuit("default.qubit", wires, gates)), argument())


def _copy(argument: Callable[[], Any]) -> Program:
    import jax
    import jax.numpy as jnp

    copied = synchronous(jax.jit(lambda numbers: jnp.array(numbers, copy=True)), argument())
    return Program(copied.run, comparable=False, compiles=False)


def _products(argument: Callable[[], Any]) -> Program:
    import numpy as np

    matrix = np.asarray(argument())
    state = np.ones((2**MATRIX, 2 ** (WIDE - MATRIX)), complex)

    def run() -> Any:
        product = state
        for _ in range(MATRICES):
            product = matrix @ product
        return product

    return Program(run, comparable=False, compiles=False)


def _angles() -> Any:
    import jax.numpy as jnp

    return jnp.linspace(0.1, 0.8, 8)


def _case(
    name: str,
    title: str,
    circuit: tuple[int, Callable[[Any], None], Callable[[], Any]],
    limit: Callable[[], Program] | None,
    *targets: Target,
    tolerance: float = 1e-9,
) -> Case:
    builders = {"bellhop": lambda: _bellhop(*circuit)}
    unavailable = {"catalyst": "these cases have a limit instead"}
    if circuit[1] is _loop:
        unavailable["jax"] = "not measured: it would compile each gate on its own"
    else:
        builders["jax"] = lambda: _jax(*circuit)
    if limit is not None:
        builders[LIMIT] = limit
    return Case(
        name=name,
        title=title,
        limit="see above" if limit is not None else "none",
        builders=builders,
        unavailable=unavailable,
        tolerance=tolerance,
        targets=targets,
    )


_STATES = [(dtype, lambda dtype=dtype: _amplitudes(dtype)) for dtype in ("complex128", "complex64")]
CASES = [
    *(
        _case(
            f"state-of-argument-{dtype}",
            f"state of {QUBITS} qubits from an argument, {dtype}",
            (QUBITS, _prepare, argument),
            lambda argument=argument: _copy(argument),
            Target(LIMIT, 1 / 1.5),
            tolerance=1e-5 if dtype == "complex64" else 1e-9,
        )
        for dtype, argument in _STATES
    ),
    _case(
        "wide-matrices",
        f"{MATRICES} matrices on {MATRIX} of {WIDE} qubits",
        (WIDE, _multiply, _matrix),
        lambda: _products(_matrix),
        Target(LIMIT, 1 / 1.5),
    ),
    _case(
        "diagonal",
        f"diagonal on {DIAGONAL} qubits",
        (DIAGONAL, _turn, _diagonal),
        None,
        Target("jax", 1.0),
    ),
    _case(
        "python-loop",
        f"{GATES} gates in a Python loop",
        (4, _loop, _angles),
        None,
    ),
]
