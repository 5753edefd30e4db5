"""fuse-gates: a straight run of gates becomes one operation with a table."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import operations, replace
from bellhop_mlir.dialects import quantum


@dataclass(frozen=True)
class FuseGates:
    """Collect gates that follow one another and read the same parameters.

    Before::

        %1 = "quantum.gate"(%0, %p, %o, %w) {name = "RX", slots = array<i64: 0>, wires = array<i64: 0>, ...}
        %2 = "quantum.gate"(%1, %p, %o, %w) {name = "CNOT", slots = array<i64>, wires = array<i64: 0, 1>, ...}

    After::

        %1 = "quantum.gates"(%0, %p, %o, %w) {names = "RX\\0ACNOT",
            code = array<i64: 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 2, 0, 0, 1>, constants = array<f64>}

    The code is that of ``bellhop_circuit_gates`` in ``runtime/contract.toml``.  A run ends
    where the state has another use, or where other parameters are read.
    """

    name: ClassVar[str] = "fuse-gates"

    def apply(self, module: ir.Module) -> None:
        """Change ``module`` in place."""
        for run in _runs(module):
            first, last = run[0], run[-1]
            names, code, constants = encode(quantum.GateOp(op).gate for op in run)
            with ir.InsertionPoint(last), first.location:
                state = quantum.gates(
                    first.operands[0], list(first.operands)[1:], names, code, constants
                )
            replace(last, [state])
            for op in reversed(run[:-1]):
                op.erase()


def _runs(module: ir.Module) -> list[list[ir.Operation]]:
    runs: list[list[ir.Operation]] = []
    for op in operations(module.operation):
        if op.name != "quantum.gate":
            continue
        if runs and _continues(runs[-1][-1], op):
            runs[-1].append(op)
        else:
            runs.append([op])
    return runs


def _continues(previous: ir.Operation, op: ir.Operation) -> bool:
    return (
        op.operands[0] == previous.results[0]
        and list(op.operands)[1:] == list(previous.operands)[1:]
        and op.block == previous.block
        and len(list(previous.results[0].uses)) == 1
    )


def encode(gates: Iterable[quantum.Gate]) -> tuple[list[str], list[int], list[float]]:
    """Write gates as the names, code and constants of the runtime's table."""
    names: dict[str, int] = {}
    code: list[int] = []
    constants: list[float] = []
    for gate in gates:
        base = len(constants)
        constants.extend(gate.constants)
        code += (
            names.setdefault(gate.name, len(names)),
            int(gate.adjoint),
            len(gate.slots),
            len(gate.wires),
            len(gate.control_wires),
        )
        code += (slot if slot >= 0 else slot - base for slot in gate.slots)
        code += gate.wires
        code += gate.control_wires
        code += gate.control_values
    return list(names), code, constants
