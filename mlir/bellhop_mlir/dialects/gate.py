"""``quantum.gate``: what is static of a gate, and the rules for it."""

from dataclasses import dataclass
from typing import Any

from bellhop_mlir._bindings import ir
from bellhop_mlir.dialects._attributes import require_attributes
from bellhop_mlir.errors import VerificationError

GATE_ATTRIBUTES = {"name": "string", "wires": "array<i64>"}
# What else a gate may have.
OPTIONAL_GATE_ATTRIBUTES = {
    "slots": "array<i64>",
    "constants": "array<f64>",
    "adjoint": "bool",
    "control_wires": "array<i64>",
    "control_values": "array<i64>",
}


@dataclass(frozen=True)
class Gate:
    """One gate with its static attributes.

    A slot is an index into the parameters of the run where it is not negative, and
    ``-1 - index`` into ``constants`` where it is; so are wires into the dynamic wires.
    """

    name: str
    wires: tuple[int, ...]
    slots: tuple[int, ...] = ()
    constants: tuple[float, ...] = ()
    adjoint: bool = False
    control_wires: tuple[int, ...] = ()
    control_values: tuple[int, ...] = ()

    def attributes(self) -> dict[str, ir.Attribute]:
        """Return the attributes that the operation has."""
        array = ir.DenseI64ArrayAttr.get
        attributes = {"name": ir.StringAttr.get(self.name), "wires": array(self.wires)}
        if self.slots:
            attributes["slots"] = array(self.slots)
        if self.constants:
            attributes["constants"] = ir.DenseF64ArrayAttr.get(self.constants)
        if self.adjoint:
            attributes["adjoint"] = ir.BoolAttr.get(True)
        if self.control_wires:
            attributes["control_wires"] = array(self.control_wires)
            attributes["control_values"] = array(self.control_values)
        return attributes


_TYPES = GATE_ATTRIBUTES | OPTIONAL_GATE_ATTRIBUTES
_CLASSES = {
    "string": ir.StringAttr,
    "bool": ir.BoolAttr,
    "array<i64>": ir.DenseI64ArrayAttr,
    "array<f64>": ir.DenseF64ArrayAttr,
}
_CLASS_OF = {name: _CLASSES[type_] for name, type_ in _TYPES.items()}


def read_gate(op: ir.Operation) -> Gate:
    """Return the static attributes of a ``quantum.gate``.

    Raises:
        VerificationError: if it lacks one, or one is of another type.
    """
    # Circuits have thousands of gates: what is wrong is found out where something is.
    fields: dict[str, Any] = {}
    for name, attribute in op.attributes.items():
        class_ = _CLASS_OF.get(name)
        if class_ is None:
            continue
        if type(attribute) is not class_:
            require_attributes(op, {name: _TYPES[name]})
        is_array = class_ is ir.DenseI64ArrayAttr or class_ is ir.DenseF64ArrayAttr
        # Indexing is three times as fast as iterating.
        fields[name] = (
            tuple([attribute[index] for index in range(len(attribute))])
            if is_array
            else attribute.value
        )
    if "name" not in fields or "wires" not in fields:
        require_attributes(op, GATE_ATTRIBUTES)
    return Gate(**fields)


def verify_gate(gate: Gate, params: ir.Value, dynamic_wires: ir.Value) -> None:
    """Check that what a gate refers to is there.

    Args:
        gate: the gate.
        params: the parameters of its run.
        dynamic_wires: the wires that the program computes.

    Raises:
        VerificationError: where it is not.
    """
    if len(gate.control_wires) != len(gate.control_values):
        raise VerificationError(
            f"quantum.gate {gate.name} has {len(gate.control_wires)} control wires and "
            f"{len(gate.control_values)} control values"
        )
    if gate.slots:
        _verify_index(gate, "constant", -1 - min(gate.slots), len(gate.constants))
        _verify_index(gate, "parameter", max(gate.slots), _row_length(params))
    lowest = min(gate.wires + gate.control_wires, default=0)
    if lowest < 0:
        _verify_index(gate, "dynamic wire", -1 - lowest, _row_length(dynamic_wires))


def _row_length(numbers: ir.Value) -> int:
    return ir.RankedTensorType(numbers.type).shape[-1]


def _verify_index(gate: Gate, what: str, highest: int, count: int) -> None:
    if highest >= count:
        raise VerificationError(
            f"quantum.gate {gate.name} refers to {what} {highest}, and there are {count}"
        )
