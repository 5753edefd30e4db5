"""convert-quantum-to-runtime: circuit operations become custom calls."""

from dataclasses import dataclass
from typing import ClassVar

from bellhop_mlir._bindings import ir
from bellhop_mlir._runtime_calls import RuntimeCalls
from bellhop_mlir._walk import operations, replace, types
from bellhop_mlir.dialects.quantum import OPERATIONS
from bellhop_mlir.errors import PassError

_TARGETS = {
    "quantum.begin": "bellhop_circuit_begin",
    "quantum.gates": "bellhop_circuit_gates",
    "quantum.mid_measure": "bellhop_circuit_mid_measure",
    "quantum.restart": "bellhop_circuit_restart",
    "quantum.measure": "bellhop_circuit_measure",
    "quantum.jacobian": "bellhop_circuit_jacobian",
    "quantum.replay": "bellhop_circuit_replay",
    "quantum.replay_jacobian": "bellhop_circuit_replay_jacobian",
    "quantum.shift": "bellhop_circuit_shift",
    "quantum.directional_derivative": "bellhop_circuit_directional_derivative",
    "quantum.vjp": "bellhop_circuit_vjp",
    "quantum.cotangents": "bellhop_circuit_cotangents",
    "quantum.steps": "bellhop_circuit_steps",
    "quantum.direction": "bellhop_circuit_direction",
    "quantum.remember": "bellhop_circuit_remember",
    "quantum.recall": "bellhop_circuit_recall",
    "quantum.after": "bellhop_circuit_after",
    "quantum.end": "bellhop_circuit_end",
}

# The state after is the state before, one circuit further: in a loop no copy is due.
_PASS_STATE_ON = (
    "quantum.gates",
    "quantum.mid_measure",
    "quantum.restart",
    "quantum.measure",
    "quantum.jacobian",
    "quantum.replay",
    "quantum.replay_jacobian",
    "quantum.shift",
    "quantum.steps",
    "quantum.remember",
    "quantum.after",
)


@dataclass(frozen=True)
class ConvertQuantumToRuntime:
    """Replace the quantum dialect by the ``bellhop_circuit_*`` custom calls.

    Before::

        %1 = "quantum.gates"(%0, %p, %o, %w) {names = "RX", code = array<i64: ...>,
            constants = array<f64>}

    After::

        %1 = stablehlo.custom_call @bellhop_circuit_gates(%0, %p, %o, %w)
            {has_side_effect = true, backend_config = {code = array<i64: ...>, ...},
             output_operand_aliases = [...], ...}

    All are marked as having side effects: XLA must neither merge two circuits, nor move one
    out of its loop, nor run both branches of a conditional around it.

    Preconditions: fuse-gates ran before (a single gate is a run of one), and
    convert-callback-to-runtime, which gives ``quantum.seed`` the program's table.

    Refused: ``quantum.gate`` and ``quantum.seed``.
    """

    name: ClassVar[str] = "convert-quantum-to-runtime"

    def apply(self, module: ir.Module) -> bool:
        """Change ``module`` in place; return False where nothing changed."""
        circuit_operations = [
            op for op in operations(module.operation) if op.name.startswith("quantum.")
        ]
        for op in circuit_operations:
            if op.name not in _TARGETS:
                first = "fuse-gates" if op.name == "quantum.gate" else "convert-callback-to-runtime"
                raise PassError(f"convert-quantum-to-runtime needs {first} to run before it")
        calls = RuntimeCalls()
        for op in circuit_operations:
            with ir.InsertionPoint(op), op.location:
                call = calls.build(
                    _TARGETS[op.name],
                    list(op.operands),
                    types(op.results),
                    {name: op.attributes[name] for name in OPERATIONS[op.name].attributes},
                    has_side_effect=True,
                    aliases=[(0, 0)] if op.name in _PASS_STATE_ON else [],
                )
            replace(op, list(call.results))
        return bool(circuit_operations)
