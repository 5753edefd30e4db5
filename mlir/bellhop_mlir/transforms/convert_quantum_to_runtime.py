"""convert-quantum-to-runtime: circuit operations become custom calls."""

from dataclasses import dataclass
from typing import ClassVar

from bellhop_mlir._bindings import ir
from bellhop_mlir._runtime_calls import custom_call
from bellhop_mlir._walk import operations, replace
from bellhop_mlir.errors import PassError

_TARGETS = {
    "quantum.begin": "bellhop_circuit_begin",
    "quantum.gates": "bellhop_circuit_gates",
    "quantum.measure": "bellhop_circuit_measure",
    "quantum.jacobian": "bellhop_circuit_jacobian",
    "quantum.end": "bellhop_circuit_end",
}


@dataclass(frozen=True)
class ConvertQuantumToRuntime:
    """Replace the quantum dialect by the ``bellhop_circuit_*`` custom calls.

    Before::

        %1 = "quantum.gates"(%0, %p, %o, %w) {names = "RX", code = array<i64: ...>, constants = array<f64>}

    After::

        %1 = stablehlo.custom_call @bellhop_circuit_gates(%0, %p, %o, %w)
            {has_side_effect = true, backend_config = {code = array<i64: ...>, ...}, ...}

    All are marked as having side effects: XLA must neither merge two circuits, nor move one
    out of its loop, nor run both branches of a conditional around it.  Gates must have been
    fused before (a single gate is a run of one).
    """

    name: ClassVar[str] = "convert-quantum-to-runtime"

    def apply(self, module: ir.Module) -> None:
        """Change ``module`` in place."""
        for op in operations(module.operation):
            if op.name == "quantum.gate":
                raise PassError("convert-quantum-to-runtime needs fuse-gates to run before it")
            if op.name not in _TARGETS:
                continue
            attributes = {attribute.name: attribute.attr for attribute in _attributes(op)}
            with ir.InsertionPoint(op), op.location:
                call = custom_call(
                    _TARGETS[op.name],
                    list(op.operands),
                    [value.type for value in op.results],
                    attributes,
                    has_side_effect=True,
                )
            replace(op, list(call.results))


def _attributes(op: ir.Operation) -> list[ir.NamedAttribute]:
    return [op.attributes[index] for index in range(len(op.attributes))]
