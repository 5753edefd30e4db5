"""fuse-circuits: fuse a circuit with one gate sequence into one operation."""

from dataclasses import dataclass

from bellhop_mlir._bindings import ir
from bellhop_mlir._call_graph import drop_unused_functions
from bellhop_mlir._outline import inline_call
from bellhop_mlir._walk import (
    constant_integer,
    find_functions,
    find_operations,
    find_producer,
    symbol_attribute,
    types_of_values,
)
from bellhop_mlir.dialects import callback, quantum
from bellhop_mlir.passes import Pass

# Attributes of quantum.begin that quantum.run keeps; the attributes in _ZERO must be zero.
_BEGIN_ATTRIBUTES = (
    *("library", "factory", "kwargs", "qubits", "record", "rows", "engine", "precision"),
    *("name", "site"),
)
_ZERO = ("shots", "tree", "seeded")


class FuseCircuits(Pass):
    """Fuse circuits without shots, mid-circuit measurements and loops.

    Before::

        %0 = "quantum.begin"(%x) {qubits = 1 : i64, ...}
        %1:2 = func.call @circuit_f(%0, %x)
        "quantum.end"(%1#0)

        func.func private @circuit_f(%0: tensor<2xui32>, %x: tensor<1xf64>) -> ... {
          %1 = "quantum.gates"(%0, %x, %offset, %wires) {names = "RX", ...}
          %2, %e = "quantum.measure"(%1, %data) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64}
          return %2, %e
        }

    After::

        %e = "quantum.run"(%x, %data) {names = "RX", measurements = array<i64: 0, 3, 0>,
            jacobian = 0 : i64}

    A custom call costs as much as the runtime's time for a circuit of a few qubits, and an operand
    some percent of that, so dynamic wires are an operand only if there are any.

    A StatePrep of an array may precede the gates: its amplitudes become the operand ``amplitudes``,
    and its code the attribute ``preparation``.

    Circuits with other gate sequences are not fused, nor are circuits that take the future of a
    call in progress as an operand.
    """

    needs = ("quantum.begin",)

    def apply(self, module: ir.Module) -> bool:
        """Fuse each circuit that can be fused, in place; return False if there is none."""
        by_name = find_functions(module)
        changed = inlined = False
        for begin in find_operations(module.operation, "quantum.begin"):
            circuit = _FusibleCircuit.from_begin(begin, by_name)
            if circuit is None:
                continue
            changed = True
            if circuit.call is not None:
                inlined = True
                inline_call(circuit.call, by_name[symbol_attribute(circuit.call)])
                circuit = _FusibleCircuit.from_begin(begin, by_name)
                assert circuit is not None
            circuit.fuse()
        if inlined:
            drop_unused_functions(module)
        return changed


@dataclass(frozen=True)
class _FusibleCircuit:
    """The operations of a circuit that can be replaced by one ``quantum.run``.

    Attributes:
        begin: the ``quantum.begin``.
        preparation: a first ``quantum.gates`` that only prepares the state, or None.
        gates: the ``quantum.gates`` with all other gates.
        measure: the ``quantum.measure``.
        end: the ``quantum.end``.
        call: call of the function that contains gates and measurements; None if they are in the
            block of `begin`.
    """

    begin: ir.Operation
    preparation: ir.Operation | None
    gates: ir.Operation
    measure: ir.Operation
    end: ir.Operation
    call: ir.Operation | None

    @classmethod
    def from_begin(
        cls, begin: ir.Operation, by_name: dict[str, ir.Operation]
    ) -> "_FusibleCircuit | None":
        """Collect the operations of a circuit; return None if it cannot be fused.

        It can be fused if the attributes ``shots``, ``tree`` (how it treats mid-circuit outcomes)
        and ``seeded`` are zero, no operand is the future of a call in progress, and it consists of
        an optional state preparation, one sequence of gates and one measurement operation. Gates
        and measurement are in the block of ``begin``, or in a function called there.

        Args:
            begin: the circuit's ``quantum.begin``.
            by_name: functions of the module by symbol; one of them may contain the gates.
        """
        if any(ir.IntegerAttr(begin.attributes[name]).value for name in _ZERO):
            return None
        if any(map(_is_future, begin.operands)):
            return None
        state, block = begin.results[0], begin.block
        call = _find_only_user(state, "func.call", block)
        if call is not None:
            if call.operands[0] != state:
                return None
            block = by_name[symbol_attribute(call)].regions[0].blocks[0]
            state = block.arguments[0]
        gates = _find_only_user(state, "quantum.gates", block)
        if gates is None or not _is_straight(gates):
            return None
        others = _find_only_user(gates.results[0], "quantum.gates", block)
        preparation = None
        if others is not None and _is_preparation(gates) and _is_straight(others):
            preparation, gates = gates, others
        measure = _find_only_user(gates.results[0], "quantum.measure", block)
        if measure is None:
            return None
        state = measure.results[0]
        if call is not None:
            returned = _find_only_user(state, "func.return", block)
            if returned is None:
                return None
            state = call.results[list(returned.operands).index(state)]
        end = _find_only_user(state, "quantum.end", begin.block)
        return None if end is None else cls(begin, preparation, gates, measure, end, call)

    def fuse(self) -> None:
        """Replace begin, gates, measurement and end of this circuit by one ``quantum.run``.

        All of them must be in one block, so the caller inlines the ``func.call`` ``call`` before.
        """
        _, params, offset, wires = self.gates.operands
        _, data, *vector = self.measure.operands
        _, *values = self.measure.results
        operands = [params, data, *([wires] if _has_elements(wires) else [])]
        code: object = []
        preparation_offset: int | None = -1
        if self.preparation is not None:
            operands.append(self.preparation.operands[1])
            code = self.preparation.attributes["code"]
            preparation_offset = constant_integer(self.preparation.operands[2])
        with ir.InsertionPoint(self.measure), self.measure.location:
            results = quantum.run(
                [*operands, *vector],
                types_of_values(values),
                offset=constant_integer(offset),
                **{name: self.begin.attributes[name] for name in _BEGIN_ATTRIBUTES},
                **dict(self.gates.attributes.items()),
                preparation=code,
                preparation_offset=preparation_offset,
                measurements=self.measure.attributes["code"],
                jacobian=self.measure.attributes["jacobian"],
            )
        for old, new in zip(values, results, strict=True):
            old.replace_all_uses_with(new)
        for op in (self.end, self.measure, self.gates, self.preparation, self.begin):
            if op is not None:
                op.erase()


def _find_only_user(value: ir.Value, name: str, block: ir.Block) -> ir.Operation | None:
    """Return the only operation that uses a value, if it has a given name and block.

    None if the value has no use or several uses, or if the operation's name is not ``name`` or its
    block is not ``block``.
    """
    users = [use.owner.operation for use in value.uses]
    is_it = len(users) == 1 and users[0].name == name and users[0].block == block
    return users[0] if is_it else None


def _is_future(anchor: ir.Value) -> bool:
    """Return whether an operand of ``quantum.begin`` is a future of a started call.

    Such an operand orders the circuit after the start of the call.
    """
    op = find_producer(anchor)
    return op is not None and op.name == "callback.call" and callback.CallOp(op).kind == "start"


def _has_elements(value: ir.Value) -> bool:
    """Return whether a tensor has at least one element."""
    return 0 not in ir.RankedTensorType(value.type).shape


def _is_straight(gates: ir.Operation) -> bool:
    """Return whether a ``quantum.gates`` is not a loop and has a constant offset.

    The offset is an operand: the index of the first parameter of these gates among the circuit's
    differentiable parameters.
    """
    _, _, offset, _, *iterations = gates.operands
    return not iterations and constant_integer(offset) is not None


def _is_preparation(gates: ir.Operation) -> bool:
    """Return whether a ``quantum.gates`` is one StatePrep of traced amplitudes."""
    name = ir.StringAttr(gates.attributes["names"]).value
    is_constant = len(ir.DenseF64ArrayAttr(gates.attributes["constants"])) > 0
    return name == "StatePrep" and not is_constant
