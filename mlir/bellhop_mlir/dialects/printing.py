"""Text of modules, with gates as comments."""

from itertools import islice

from bellhop_mlir._bindings import ir
from bellhop_mlir.dialects.gate import Gate, iterate_gates

_GATES = '"quantum.gates"('
# Maximum number of gates in comments; more would be slow and long.
_MAX_GATES = 100


def print_module(module: ir.Module, large_elements_limit: int | None = None) -> str:
    r"""Print a module as MLIR text, with a comment for each gate.

        %1 = "quantum.gates"(%0, ...) {code = array<i64: ...>, names = "Hadamard\0ARX", ...}
        // Hadamard 0
        // RX(p[2]) 1

    ``p[i]`` is entry ``i`` of the operation's operand of parameters. Each ``quantum.gates`` has
    comments for its first ``_MAX_GATES`` gates.

    Args:
        module: the module, verified or not.
        large_elements_limit: elide constants with more elements; None for no limit.
    """
    lines = module.operation.get_asm(large_elements_limit=large_elements_limit).split("\n")
    runs = iter(_find_gate_operations(module.operation))
    shown: list[str] = []
    for line in lines:
        shown.append(line)
        if _GATES in line:
            indentation = line[: -len(line.lstrip())]
            shown += (f"{indentation}// {comment}" for comment in _format_comments(next(runs)))
    return "\n".join(shown)


def _find_gate_operations(module: ir.Operation) -> list[ir.Operation]:
    """Find all ``quantum.gates``, also in nested modules, in printed order."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        """Append a ``quantum.gates`` operation to the result of `_find_gate_operations`."""
        if op.name == "quantum.gates":
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _format_comments(run: ir.Operation) -> list[str]:
    """Format the gates of a ``quantum.gates`` operation, one comment for each gate.

    After ``_MAX_GATES`` gates the comments end with ``and more``. If the attributes are invalid,
    the only comment is ``no table of gates``.
    """
    gates = iterate_gates(run)
    try:
        shown = [_format_gate(gate) for gate in islice(gates, _MAX_GATES)]
        return shown if next(gates, None) is None else [*shown, "and more"]
    except (IndexError, KeyError, RuntimeError, TypeError, ValueError):
        return ["no table of gates"]


def _format_gate(gate: Gate) -> str:
    """Format a gate as text such as ``RX(p[2]) 1``.

    An inverted and controlled gate is ``adjoint(S) 0 where 2 is 1 at f.py:3``.

    Args:
        gate: the gate, whose name may end with ``@`` and its line in the user's code.
    """
    name, _, site = gate.name.partition("@")
    applied = name + (f"({', '.join(_format_parameters(gate))})" if gate.slots else "")
    controls = zip(map(_format_wire, gate.control_wires), gate.control_values, strict=True)
    parts = [
        f"adjoint({applied})" if gate.adjoint else applied,
        *map(_format_wire, gate.wires),
        *(f"where {wire} is {value}" for wire, value in controls),
        *([f"at {site}"] if site else []),
    ]
    return " ".join(parts)


def _format_parameters(gate: Gate) -> list[str]:
    """Format the parameters of a gate as texts.

    ``p[2]`` is a traced parameter, the entry 2 of the operation's parameters; ``p[2:6]`` is an
    array of traced parameters. A constant is shown as its value, an array of four constants as
    ``4 constants``.
    """
    slots = gate.slots
    if isinstance(slots, range):
        place = f"p[{slots.start}:{slots.stop}]"
        return [place if slots.start >= 0 else f"{len(slots)} constants"]
    return [f"p[{s}]" if s >= 0 else f"{gate.constants[-1 - s]:g}" for s in slots]


def _format_wire(wire: int) -> str:
    """Format a wire: ``2`` for qubit 2, ``w[0]`` for entry 0 of the dynamic wires (-1)."""
    return str(wire) if wire >= 0 else f"w[{-1 - wire}]"
