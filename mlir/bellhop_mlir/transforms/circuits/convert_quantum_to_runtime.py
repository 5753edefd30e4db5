"""convert-quantum-to-runtime: convert circuit operations to custom calls."""

from dataclasses import dataclass

from bellhop_mlir._bindings import ir
from bellhop_mlir._runtime_calls import RuntimeCallBuilder
from bellhop_mlir._walk import list_operations
from bellhop_mlir.dialects._attributes import make_i64
from bellhop_mlir.dialects._contract import find_custom_call
from bellhop_mlir.dialects.quantum import OPERATIONS, PROGRAM, returns_state
from bellhop_mlir.errors import PassError
from bellhop_mlir.passes import Pass


@dataclass(frozen=True)
class ConvertQuantumToRuntime(Pass):
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

    Calls that begin a circuit gain the attribute ``program``.

    Args:
        program: for a program whose table of callbacks is published to the whole process, the
            program's key in the table, by which the runtime finds the execution that a circuit
            belongs to; 0 for programs that get the table as an operand.

    Preconditions: convert-callback-to-runtime ran before, which gives ``quantum.seed`` the
    program's table.
    """

    program: int = 0

    needs = ("quantum",)

    def apply(self, module: ir.Module) -> bool:
        """Convert the operations of circuits to custom calls, in place.

        Returns:
            False if the module has none.

        Raises:
            PassError: if a ``quantum.seed`` is left, which convert-callback-to-runtime converts.
        """
        circuit_operations = [
            op for op in list_operations(module.operation) if op.name.startswith("quantum.")
        ]
        for op in circuit_operations:
            if op.name == "quantum.seed":
                raise PassError(
                    "convert-quantum-to-runtime needs convert-callback-to-runtime to run before it"
                )
        calls = RuntimeCallBuilder()
        for op in circuit_operations:
            target = op.name.replace("quantum.", "bellhop_circuit_")
            attributes = {name: op.attributes[name] for name in OPERATIONS[op.name].attributes}
            if PROGRAM in find_custom_call(target).attributes:
                attributes[PROGRAM] = make_i64(self.program)
            calls.replace(
                op,
                target,
                list(op.operands),
                attributes,
                # The same circuit, one operation further: in a loop no copy is due.
                aliases=[(0, 0)] if returns_state(op.name) else [],
            )
        return bool(circuit_operations)
