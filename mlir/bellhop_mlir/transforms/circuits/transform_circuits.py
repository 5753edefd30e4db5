"""transform-circuits: each circuit gets the passes that its QNode asks for."""

from bellhop_mlir._bindings import ir
from bellhop_mlir._call_graph import call_graph, reachable
from bellhop_mlir._walk import enclosing_function, functions, named, string, symbol
from bellhop_mlir.errors import PassError
from bellhop_mlir.passes import CircuitPass, Pass
from bellhop_mlir.transforms.circuits.cancel_inverses import CancelInverses
from bellhop_mlir.transforms.circuits.merge_loop_boundaries import MergeLoopBoundaries
from bellhop_mlir.transforms.circuits.merge_rotations import MergeRotations

CIRCUIT_PASSES: dict[str, type[CircuitPass]] = {
    pass_.name: pass_ for pass_ in (CancelInverses, MergeLoopBoundaries, MergeRotations)
}


class TransformCircuits(Pass):
    """Run the passes that ``quantum.begin`` names over the circuit that it begins.

    Before::

        %0 = "quantum.begin"() {passes = "cancel-inverses", ...}
        %1 = func.call @circuit(%0)
        func.func private @circuit(%0: tensor<2xui32>) -> tensor<2xui32> {
          %1 = "quantum.gate"(%0, ...) {name = "PauliX", wires = array<i64: 0>, ...}
          %2 = "quantum.gate"(%1, ...) {name = "PauliX", wires = array<i64: 0>, ...}
          return %2
        }

    After::

        %0 = "quantum.begin"() {...}
        %1 = func.call @circuit(%0)
        func.func private @circuit(%0: tensor<2xui32>) -> tensor<2xui32> {
          return %0
        }

    Preconditions: gates are not fused yet.

    Refused: a pass that there is not.
    """

    def apply(self, module: ir.Module) -> bool:
        """Change ``module`` in place; return False where nothing changed."""
        by_name, graph = functions(module), call_graph(module)
        asking = circuits_with_passes(module)
        for op in asking:
            names = string(op, "passes").split()
            del op.attributes["passes"]
            circuit = [by_name[name] for name in sorted(reachable(graph, _entries(op)))]
            for name in names:
                if name not in CIRCUIT_PASSES:
                    raise PassError(
                        f"there is no circuit pass '{name}'; there are {', '.join(CIRCUIT_PASSES)}"
                    )
                CIRCUIT_PASSES[name]().apply_to(circuit)
        return bool(asking)


def circuits_with_passes(module: ir.Module) -> list[ir.Operation]:
    """Return the beginnings of the circuits that ask for passes of their own."""
    return [op for op in named(module.operation, "quantum.begin") if "passes" in op.attributes]


def _entries(begin: ir.Operation) -> list[str]:
    """Return the functions that the state goes to; without one, where it is."""
    users = [use.owner for use in begin.results[0].uses]
    calls = [symbol(user) for user in users if user.name == "func.call"]
    return calls or [enclosing_function(begin)]
