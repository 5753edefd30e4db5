"""Which backend runs a circuit, and how: a line for each (device and settings, circuit) cell.

    python -m tests.conformance.decisions            compare with decisions.txt
    python -m tests.conformance.decisions --record   write decisions.txt

A line shows the plans of all executions in the program of a value, and in the program of its
gradient. ``decisions.txt`` is a golden file: a change of a decision shows as a change of a line.
"""

import difflib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
from tests.conformance.circuits import CIRCUITS, N_WIRES

import bellhop
from bellhop.circuits.backends.compiled.differentiable.compiled_state import CircuitEquation
from bellhop.circuits.backends.compiled.differentiable.engine_support import choose_record_mode
from bellhop.errors import CompileError
from bellhop.jaxprs.equations import iterate_equations

GOLDEN = Path(__file__).with_name("decisions.txt")
ANGLE = 0.4


def _amplitudes(x: Any, api: Any) -> Any:
    qml.StatePrep(jnp.array([jnp.cos(x), 0, 0, jnp.sin(x)]), wires=[0, 1])
    qml.RX(x, 0)
    return qml.expval(qml.Z(0))


def _traced_matrix(x: Any, api: Any) -> Any:
    qml.QubitUnitary(jnp.array([[jnp.cos(x), -jnp.sin(x)], [jnp.sin(x), jnp.cos(x)]]), 0)
    return qml.expval(qml.Z(0))


def _shadow(x: Any, api: Any) -> Any:
    qml.RX(x, 0)
    return qml.shadow_expval(qml.Z(0), seed=1)


def _samples(x: Any, api: Any) -> Any:
    qml.RX(x, 0)
    return qml.sample(wires=[0, 1])


def _loop_of_conditionals(x: Any, api: Any) -> Any:
    def body(i: Any, angle: Any) -> Any:
        api.cond(angle > 0.5, lambda: (qml.RX(angle, 0), None)[1])()
        return angle + 0.001

    api.for_loop(0, 5000, 1)(body)(x)
    return qml.expval(qml.Z(0))


def _outcomes_in_while_loop(x: Any, api: Any) -> Any:
    def body(angle: Any) -> Any:
        qml.RX(angle, 0)
        api.measure(0)
        return angle + 0.3

    api.while_loop(lambda angle: angle < 1.4)(body)(x)
    return qml.expval(qml.Z(0))


def _many_outcomes(x: Any, api: Any) -> Any:
    for i in range(10):
        qml.RX(x, i % N_WIRES)
        outcome = api.measure(i % N_WIRES)
        api.cond(outcome, lambda i=i: (qml.RY(x, (i + 1) % N_WIRES), None)[1])()
    return qml.expval(qml.Z(0))


# The circuits, functions of an angle and of the module with loops and conditionals.
CELLS: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: CIRCUITS[name]
        for name in (
            *("gate RX", "gate QubitUnitary", "measure var of Z", "measure probs of all wires"),
            *("measure state", "measure several", "nested loops", "while loop", "conditional"),
            *("outcome, measure and condition", "outcome, measure two wires"),
            "outcome, measure and postselect",
        )
    },
    "amplitudes": _amplitudes,
    "traced matrix": _traced_matrix,
    "shadow": _shadow,
    "samples": _samples,
    "loop of 5000 conditionals": _loop_of_conditionals,
    "outcomes in a while loop": _outcomes_in_while_loop,
    "many outcomes": _many_outcomes,
}


class PythonDevice(qml.devices.DefaultQubit):
    """A device that no backend knows, so that programs call it through Python."""

    name = "python.qubit"


# For each column: device, its options, the QNode's settings, the shots, the options of `qjit`.
SETTINGS: dict[str, tuple[str, dict[str, Any], dict[str, Any], Any, dict[str, Any]]] = {
    "lightning.qubit": ("lightning.qubit", {}, {}, None, {}),
    "lightning.qubit, 100 shots": ("lightning.qubit", {}, {}, 100, {}),
    "lightning.qubit, shots (10, 20), parameter-shift": (
        *("lightning.qubit", {}, {"diff_method": "parameter-shift"}, (10, 20), {}),
    ),
    "lightning.qubit, adjoint": ("lightning.qubit", {}, {"diff_method": "adjoint"}, None, {}),
    "lightning.qubit, parameter-shift": (
        *("lightning.qubit", {}, {"diff_method": "parameter-shift"}, None, {}),
    ),
    "lightning.qubit, finite-diff": (
        *("lightning.qubit", {}, {"diff_method": "finite-diff"}, None, {}),
    ),
    "lightning.qubit, spsa": ("lightning.qubit", {}, {"diff_method": "spsa"}, None, {}),
    "lightning.qubit, single branch": (
        *("lightning.qubit", {}, {"mcm_method": "single-branch-statistics"}, None, {}),
    ),
    "lightning.qubit, one-shot, 5 shots": (
        *("lightning.qubit", {}, {"mcm_method": "one-shot"}, 5, {}),
    ),
    "lightning.qubit, tree-traversal": (
        *("lightning.qubit", {}, {"mcm_method": "tree-traversal"}, None, {}),
    ),
    "lightning.qubit, plugin": ("lightning.qubit", {}, {}, None, {"engine": "plugin"}),
    "lightning.qubit, plugin, 100 shots": ("lightning.qubit", {}, {}, 100, {"engine": "plugin"}),
    "lightning.qubit, single precision": (
        *("lightning.qubit", {"c_dtype": np.complex64}, {}, None, {}),
    ),
    "default.qubit": ("default.qubit", {}, {}, None, {}),
    "default.qubit, 100 shots": ("default.qubit", {}, {}, 100, {}),
    "default.qubit, backprop": ("default.qubit", {}, {"diff_method": "backprop"}, None, {}),
    "default.qubit, plugin": ("default.qubit", {}, {}, None, {"engine": "plugin"}),
    "default.mixed": ("default.mixed", {}, {}, None, {}),
    "null.qubit": ("null.qubit", {}, {}, None, {}),
    "python.qubit": ("python.qubit", {}, {}, None, {}),
}


# Cells that take long to trace, with the reason.
SKIPPED = {("python.qubit", "loop of 5000 conditionals"): "its tape has 5000 operations"}


def _make_function(circuit: Callable[[Any, Any], Any], setting: str) -> Callable[[Any], Any]:
    """Return a QNode of a circuit with the settings of a column."""
    name, options, arguments, shots, _ = SETTINGS[setting]
    make = PythonDevice if name == "python.qubit" else lambda **kw: qml.device(name, **kw)
    qnode = qml.QNode(lambda x: circuit(x, bellhop), make(wires=N_WIRES, **options), **arguments)
    return qnode if shots is None else qml.set_shots(qnode, shots)


def _describe_execution(eqn: Any) -> str:
    """Describe the execution that an equation represents; empty for other equations."""
    name, tag = eqn.primitive.name, eqn.params.get("tag")
    if tag is not None and tag.box:
        return str(tag.box[-1])
    if name == "quantum_circuit":
        body, batch = eqn.params["body"], eqn.params["batch"]
        equations = list(map(CircuitEquation, iterate_equations(body.closed.jaxpr)))
        measured = [
            f"{each.eqn.params['query'].name.lower()} by {each.measuring.differentiation.method}"
            for each in equations
            if each.measuring is not None
        ]
        record = choose_record_mode(body.closed) if body.derivative_order else 0
        parts = [
            body.plan.backend,
            f"{body.outcomes.value} outcomes",
            *(["order " + str(body.derivative_order)] if body.derivative_order else []),
            *([f"record {record}"] if record else []),
            *(["single precision"] if body.device.precision == 32 else []),
            *([f"{body.device.shots} shots"] if body.device.shots else []),
            *([f"{batch.size} rows"] if batch is not None else []),
            *dict.fromkeys(measured),
        ]
        return ", ".join(parts)
    if name.startswith("bellhop_") and "target" in eqn.params:
        return f"Python: {eqn.params['target'].name}"
    return ""


def _iterate_executions(function: Callable[[Any], Any], setting: str) -> Iterator[str]:
    """Trace a function and describe each execution in its program, or the error."""
    with_options = bellhop.qjit(function, **SETTINGS[setting][-1])
    try:
        with_options.trace(ANGLE)
    except (CompileError, NotImplementedError) as error:
        where = re.compile(r"the QNode '[^']*' \([^)]*\)(: )?")
        yield f"{type(error).__name__}: {where.sub('', str(error)).splitlines()[0]}"
        return
    yield from dict.fromkeys(
        filter(None, map(_describe_execution, iterate_equations(with_options.jaxpr.jaxpr)))
    )


def _sum_of_results(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a real-valued function of all results, to be differentiated."""
    return lambda x: sum(
        jnp.sum(jnp.real(jnp.asarray(leaf)).astype(float)) for leaf in jax.tree.leaves(function(x))
    )


def describe_cell(setting: str, name: str) -> list[str]:
    """Return the lines of a cell: the decisions for the value and for the gradient."""
    qnode = _make_function(CELLS[name], setting)
    functions = {name: qnode, f"{name}, gradient": bellhop.grad(_sum_of_results(qnode))}
    return [
        f"{label}: {' | '.join(_iterate_executions(function, setting)) or 'nothing'}"
        for label, function in functions.items()
    ]


def list_cells(setting: str) -> list[str]:
    """Return the names of a column's circuits."""
    return [name for name in CELLS if (setting, name) not in SKIPPED]


def describe_setting(setting: str) -> list[str]:
    """Return the lines of a column: its title, and two lines for each circuit."""
    cells = [describe_cell(setting, name) for name in list_cells(setting)]
    return [f"# {setting}", *(line for lines in cells for line in lines)]


def read_golden() -> dict[str, list[str]]:
    """Return the lines of ``decisions.txt`` for each column."""
    blocks = GOLDEN.read_text().strip().split("\n\n")
    return {block.splitlines()[0].removeprefix("# "): block.splitlines() for block in blocks}


if __name__ == "__main__":
    found = "\n\n".join("\n".join(describe_setting(setting)) for setting in SETTINGS) + "\n"
    if "--record" in sys.argv:
        GOLDEN.write_text(found)
    elif found != GOLDEN.read_text():
        before, after = GOLDEN.read_text().splitlines(), found.splitlines()
        print(*difflib.unified_diff(before, after, lineterm="", n=0), sep="\n")
        sys.exit("decisions.txt is out of date: run this with --record and review the changes.")
