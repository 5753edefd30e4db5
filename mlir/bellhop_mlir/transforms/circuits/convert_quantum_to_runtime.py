"""convert-quantum-to-runtime: convert circuit operations to custom calls."""

from bellhop_mlir._bindings import ir
from bellhop_mlir._runtime_calls import RuntimeCallBuilder
from bellhop_mlir._walk import list_operations
from bellhop_mlir.dialects.quantum import OPERATIONS, returns_state
from bellhop_mlir.errors import PassError
from bellhop_mlir.passes import Pass


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

    Preconditions: convert-callback-to-runtime ran before, which gives ``quantum.seed`` the
    program's table.
    """

    needs = ("quantum",)

    def apply(self, module: ir.Module) -> bool:
        """Transform ``module`` in place; return False if nothing changed."""
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
            calls.replace(
                op,
                op.name.replace("quantum.", "bellhop_circuit_"),
                list(op.operands),
                {name: op.attributes[name] for name in OPERATIONS[op.name].attributes},
                # The state is updated in place, so loops need no copies.
                aliases=[(0, 0)] if returns_state(op.name) else [],
            )
        return bool(circuit_operations)
