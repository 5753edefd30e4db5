"""The quantum dialect: circuits on a device, in order of a state handle.

    %s0 = "quantum.begin"(%anchor) {library = "...", factory = "LightningSimulator",
                                    kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64}
    %s1 = "quantum.gate"(%s0, %params, %offset, %wires) {name = "RX", adjoint = false,
        slots = array<i64: 0>, constants = array<f64>, wires = array<i64: 0>,
        control_wires = array<i64>, control_values = array<i64>}
    %s2 = "quantum.gates"(%s0, %params, %offset, %wires) {names, code, constants}
    %s3, %e = "quantum.measure"(%s2, %data) {code = array<i64: 0, 3, 0>}
    %s4, %j = "quantum.jacobian"(%s3)
    "quantum.end"(%s4)

The handle is ``tensor<2xui32>``; every operation takes the state before it and returns
the state after it, so data dependence is program order.  A slot ``s >= 0`` is
``%params[s]`` and ``s < 0`` is ``constants[-1-s]``; a wire ``w < 0`` is ``%wires[-1-w]``.
``quantum.gates`` is a straight run of gates as the runtime takes it.  Codes are those of
``runtime/contract.toml``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bellhop_mlir._bindings import ir, register_dialect, register_operation
from bellhop_mlir.errors import VerificationError

STATE = "tensor<2xui32>"

_REQUIRED = {
    "quantum.begin": ("library", "factory", "kwargs", "qubits", "shots", "record"),
    "quantum.gate": (
        "name",
        "adjoint",
        "slots",
        "constants",
        "wires",
        "control_wires",
        "control_values",
    ),
    "quantum.gates": ("names", "code", "constants"),
    "quantum.measure": ("code",),
    "quantum.jacobian": (),
    "quantum.end": (),
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


@register_dialect
class QuantumDialect(ir.Dialect):
    """Namespace of the operations below."""

    DIALECT_NAMESPACE = "quantum"


@register_operation(QuantumDialect)
class GateOp(ir.OpView):
    """Applies one gate."""

    OPERATION_NAME = "quantum.gate"
    _ODS_REGIONS = (0, True)

    @property
    def gate(self) -> Gate:
        """The static attributes of the gate."""
        attributes = self.attributes
        return Gate(
            name=ir.StringAttr(attributes["name"]).value,
            wires=integers(attributes["wires"]),
            slots=integers(attributes["slots"]),
            constants=tuple(ir.DenseF64ArrayAttr(attributes["constants"])),
            adjoint=ir.BoolAttr(attributes["adjoint"]).value,
            control_wires=integers(attributes["control_wires"]),
            control_values=integers(attributes["control_values"]),
        )


def integers(attribute: ir.Attribute) -> tuple[int, ...]:
    """Return the elements of an ``array<i64>``."""
    return tuple(ir.DenseI64ArrayAttr(attribute))


def state_type() -> ir.Type:
    """Return the type of the state handle."""
    return ir.Type.parse(STATE)


def begin(
    anchors: Sequence[ir.Value],
    *,
    library: str,
    factory: str,
    kwargs: str,
    qubits: int,
    shots: int,
    record: bool,
) -> ir.Value:
    """Build a ``quantum.begin`` and return the state."""
    i64 = ir.IntegerType.get_signless(64)
    return ir.Operation.create(
        "quantum.begin",
        results=[state_type()],
        operands=list(anchors),
        attributes={
            "library": ir.StringAttr.get(library),
            "factory": ir.StringAttr.get(factory),
            "kwargs": ir.StringAttr.get(kwargs),
            "qubits": ir.IntegerAttr.get(i64, qubits),
            "shots": ir.IntegerAttr.get(i64, shots),
            "record": ir.IntegerAttr.get(i64, int(record)),
        },
    ).result


def gate(
    state: ir.Value, params: ir.Value, offset: ir.Value, wires: ir.Value, gate: Gate
) -> ir.Value:
    """Build a ``quantum.gate`` and return the state after it."""
    array = ir.DenseI64ArrayAttr.get
    return ir.Operation.create(
        "quantum.gate",
        results=[state.type],
        operands=[state, params, offset, wires],
        attributes={
            "name": ir.StringAttr.get(gate.name),
            "adjoint": ir.BoolAttr.get(gate.adjoint),
            "slots": array(list(gate.slots)),
            "constants": ir.DenseF64ArrayAttr.get(list(gate.constants)),
            "wires": array(list(gate.wires)),
            "control_wires": array(list(gate.control_wires)),
            "control_values": array(list(gate.control_values)),
        },
    ).result


def gates(
    state: ir.Value,
    operands: Sequence[ir.Value],
    names: Sequence[str],
    code: Sequence[int],
    constants: Sequence[float],
) -> ir.Value:
    """Build a ``quantum.gates`` and return the state after it."""
    return ir.Operation.create(
        "quantum.gates",
        results=[state.type],
        operands=[state, *operands],
        attributes={
            "names": ir.StringAttr.get("\n".join(names)),
            "code": ir.DenseI64ArrayAttr.get(list(code)),
            "constants": ir.DenseF64ArrayAttr.get(list(constants)),
        },
    ).result


def measure(
    state: ir.Value, data: ir.Value, code: Sequence[int], results: Sequence[ir.Type]
) -> list[ir.Value]:
    """Build a ``quantum.measure``; return the state after it and the values."""
    op = ir.Operation.create(
        "quantum.measure",
        results=[state.type, *results],
        operands=[state, data],
        attributes={"code": ir.DenseI64ArrayAttr.get(list(code))},
    )
    return list(op.results)


def jacobian(state: ir.Value, result: ir.Type) -> list[ir.Value]:
    """Build a ``quantum.jacobian``; return the state after it and the derivative."""
    op = ir.Operation.create("quantum.jacobian", results=[state.type, result], operands=[state])
    return list(op.results)


def end(state: ir.Value) -> None:
    """Build a ``quantum.end``."""
    ir.Operation.create("quantum.end", operands=[state])


def verify(op: ir.Operation) -> None:
    """Check one operation of this dialect."""
    if op.name not in _REQUIRED:
        raise VerificationError(f"unknown operation {op.name}")
    for name in _REQUIRED[op.name]:
        if name not in op.attributes:
            raise VerificationError(f"{op.name} lacks the attribute '{name}'")
    if op.name != "quantum.begin" and (
        len(op.operands) == 0 or str(op.operands[0].type) != STATE
    ):
        raise VerificationError(f"{op.name} must take a state ({STATE}) first")
    if op.name != "quantum.end" and (len(op.results) == 0 or str(op.results[0].type) != STATE):
        raise VerificationError(f"{op.name} must return a state ({STATE}) first")
    if op.name == "quantum.gate":
        _verify_gate(GateOp(op).gate)


def _verify_gate(gate: Gate) -> None:
    if len(gate.control_wires) != len(gate.control_values):
        raise VerificationError(
            f"quantum.gate {gate.name} has {len(gate.control_wires)} control wires and "
            f"{len(gate.control_values)} control values"
        )
    lowest = min(gate.slots, default=0)
    if -lowest > len(gate.constants):
        raise VerificationError(
            f"quantum.gate {gate.name} refers to constant {-1 - lowest} of {len(gate.constants)}"
        )
