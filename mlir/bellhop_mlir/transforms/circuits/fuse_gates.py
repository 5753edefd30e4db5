"""fuse-gates: a straight run of gates becomes one operation with a table."""

from collections.abc import Iterable
from dataclasses import dataclass

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import named, replace
from bellhop_mlir.dialects import quantum
from bellhop_mlir.dialects.gate import Gate, read_gate
from bellhop_mlir.passes import Pass


class FuseGates(Pass):
    """Collect gates that follow one another and read the same parameters.

    Before::

        %1 = "quantum.gate"(%0, %p, %o, %w) {name = "RX", slots = array<i64: 0>,
            wires = array<i64: 0>, ...}
        %2 = "quantum.gate"(%1, %p, %o, %w) {name = "CNOT", slots = array<i64>,
            wires = array<i64: 0, 1>, ...}

    After::

        %1 = "quantum.gates"(%0, %p, %o, %w) {names = "RX\\0ACNOT", constants = array<f64>,
            code = array<i64: 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 2, 0, 0, 1>}

    The code is that of ``bellhop_circuit_gates`` in ``runtime/contract.toml``.  A run stands
    where its last gate stood, and ends where the state has another use or the block ends, or
    where other parameters are read.
    """

    needs = ("quantum.gate",)

    def apply(self, module: ir.Module) -> bool:
        """Change ``module`` in place; return False where nothing changed."""
        runs = _runs(module)
        for run in runs:
            first, last = run[0], run[-1]
            names, code, constants = encode(map(read_gate, run))
            with ir.InsertionPoint(last), first.location:
                state, *others = first.operands
                state = quantum.gates(state, others, names, code, constants)
            replace(last, [state])
            for op in reversed(run[:-1]):
                op.erase()
        return bool(runs)


def _runs(module: ir.Module) -> list[list[ir.Operation]]:
    runs: list[list[ir.Operation]] = []
    # By the state after its last gate: runs of several circuits may be interleaved.
    open_runs: dict[ir.Value, _OpenRun] = {}
    for op in named(module.operation, "quantum.gate"):
        state, *others = op.operands
        run = open_runs.pop(state, None)
        if run is None or not run.continues_with(op, others, state):
            run = _OpenRun([], op.block, others)
            runs.append(run.gates)
        run.gates.append(op)
        open_runs[op.results[0]] = run
    return runs


@dataclass
class _OpenRun:
    gates: list[ir.Operation]
    block: ir.Block
    operands: list[ir.Value]

    def continues_with(self, op: ir.Operation, operands: list[ir.Value], state: ir.Value) -> bool:
        return operands == self.operands and op.block == self.block and len(list(state.uses)) == 1


def encode(gates: Iterable[Gate]) -> tuple[list[str], list[int], list[float]]:
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
