"""The quantum dialect: circuits on a device, in order of a state handle.

    %r = "quantum.seed"() {circuit = 0 : i64}
    %s0 = "quantum.begin"(%r, %anchor) {
        library = "...", factory = "LightningSimulator", kwargs = "{}", qubits = 2 : i64,
        shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 1 : i64, rows = 0 : i64,
        engine = 1 : i64, precision = 64 : i64, name = "f", site = "f.py:1"}
    %s1 = "quantum.gate"(%s0, %params, %offset, %wires) {name = "RX", slots = array<i64: 0>,
        wires = array<i64: 0>}
    %s2 = "quantum.gates"(%s0, %params, %offset, %wires, %iterations) {names, code, constants}
    %s2a, %m = "quantum.mid_measure"(%s2, %wire) {postselect = -1 : i64, reset = 0 : i64,
        site = "f.py:3"}
    %s2b, %more, %counts = "quantum.restart"(%s2a)
    %s3, %e = "quantum.measure"(%s2, %data) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64}
    %s4, %saved, %h = "quantum.derivative"(%s3, %data, %all_params, %rules, %basis, %steps,
        %directions)
        {code, sizes, squares, ends, coefficients, amounts, order = 2 : i64, adjoint, keep}
    %d = "quantum.direction"(%s4, %zero, %tangents, %number)
    %e_dot = "quantum.jvp"(%s4, %d, %saved)
    %t = "quantum.vjp"(%s4, %cotangents, %saved)
    %c = "quantum.cotangents"(%s4, %t, %number)
    %s5 = "quantum.after"(%s4, %c)
    "quantum.end"(%s5)
    %v = "quantum.run"(%params, %data) {...}

The handle is ``tensor<2xui32>``; every operation takes the state before it and returns
the state after it, so data dependence is program order.  What else they take and return is what
``runtime/contract.toml`` says of their custom calls.  A slot ``s >= 0`` is
``%params[s]`` and ``s < 0`` is ``constants[-1-s]``; a wire ``w < 0`` is ``%wires[-1-w]``.
A gate may have ``constants``, ``adjoint``, ``control_wires`` and ``control_values`` too; what
it lacks is empty, or false.
``quantum.gates`` is a straight run of gates, or the iterations of a loop of one, as the
runtime takes it.  ``quantum.run`` is a whole circuit, without a handle.  Codes are those of
``runtime/contract.toml``.

With ``rows > 0`` it is a batch: so many circuits of the same operations, which the runtime runs
on several threads.  What the rows do not share has an axis of rows in front (``%params``,
``%wires``, ``%data``, ``%all_params``), and so has every result but the state.  With
``jacobian = 1`` the last result of ``quantum.measure`` is the derivative, and with ``jacobian = 2``
its only one is the VJP of one more operand, the cotangents of its values.

Numbers are in double precision.  What builds an operation takes and gives those of the program,
which may be in single precision, and puts conversions around it.
"""

from collections.abc import Callable, Sequence

from bellhop_mlir._bindings import ir, register_dialect
from bellhop_mlir._walk import types
from bellhop_mlir.dialects._attributes import require_attributes
from bellhop_mlir.dialects._contract import CustomCall, custom_call
from bellhop_mlir.dialects._precision import DoubleSignature
from bellhop_mlir.dialects.gate import (
    GATE_ATTRIBUTES,
    OPTIONAL_GATE_ATTRIBUTES,
    Gate,
    read_gate,
    verify_gate,
)
from bellhop_mlir.errors import VerificationError

# By name.
OPERATIONS: dict[str, DoubleSignature] = {}


def _operation(name: str, signature: CustomCall | None = None, **optional: str) -> DoubleSignature:
    """Return the signature of an operation: that of its custom call, where no other is given."""
    operands, results, attributes = signature or custom_call(f"bellhop_circuit_{name}")
    name = f"quantum.{name}"
    OPERATIONS[name] = DoubleSignature(name, operands, results, attributes, optional)
    return OPERATIONS[name]


@register_dialect
class QuantumDialect(ir.Dialect):
    """Namespace of the operations below."""

    DIALECT_NAMESPACE = "quantum"


# Each builds its operation when it is called: with operands, the types of results that it leaves
# open, and attributes.  What these mean stands in runtime/contract.toml, but for ``backend``: who
# runs the circuit, and why.
begin = _operation("begin", backend="string")
mid_measure = _operation("mid_measure")
restart = _operation("restart")
measure = _operation("measure")
score = _operation("score")
derivative = _operation("derivative")
jvp = _operation("jvp")
vjp = _operation("vjp")
cotangents = _operation("cotangents")
steps = _operation("steps")
direction = _operation("direction")
remember = _operation("remember")
recall = _operation("recall")
after = _operation("after")
end = _operation("end")
run = _operation("run")
_gates = _operation("gates")
# The runtime takes the program's table too, and of gates only runs.
_SEED = custom_call("bellhop_seed")
seed = _operation("seed", _SEED._replace(operands=()))
_gate = _operation(
    "gate",
    CustomCall(_gates.operands[:4], _gates.results, GATE_ATTRIBUTES),
    **OPTIONAL_GATE_ATTRIBUTES,
)
STATE = _gates.operands[0]
SEED = _SEED.results[0]


def gate(
    state: ir.Value, params: ir.Value, offset: ir.Value, wires: ir.Value, gate: Gate
) -> ir.Value:
    """Build a ``quantum.gate`` of parameters in double precision; return the state after it."""
    # Circuits have thousands of gates: to look into the signature takes twice as long.
    return ir.Operation.create(
        "quantum.gate",
        results=[state.type],
        operands=[state, params, offset, wires],
        attributes=gate.attributes(),
    ).result


def gates(
    state: ir.Value,
    operands: Sequence[ir.Value],
    names: Sequence[str],
    code: Sequence[int],
    constants: Sequence[float],
) -> ir.Value:
    """Build a ``quantum.gates`` and return the state after it.

    Args:
        state: the state before it.
        operands: parameters, offset, wires, and how many iterations, where it is not one.
        names: those of the table, as the code and the constants are.
        code: see ``runtime/contract.toml``.
        constants: what slots below zero refer to.
    """
    names_ = "\n".join(names)
    return _gates([state, *operands], names=names_, code=code, constants=constants)[0]


def passes_state_on(name: str) -> bool:
    """Tell whether an operation takes the state and returns the state after it, both first."""
    signature = OPERATIONS[name]
    return signature.operands[:1] == signature.results[:1] == (STATE,)


def verifier() -> Callable[[ir.Operation], None]:
    """Return the check of one operation of this dialect.

    It may be called for one operation after another.
    """
    two_states = [ir.Type.parse(STATE)] * 2
    # What the gate before takes beside the state; in a run of gates it is the same.
    of_run: list[ir.Value] | None = None

    def verify(op: ir.Operation) -> None:
        nonlocal of_run
        name = op.name
        if name != "quantum.gate":
            if name not in OPERATIONS:
                raise VerificationError(f"unknown operation {name}")
            signature = OPERATIONS[name]
            signature.verify_types(op)
            require_attributes(op, signature.attributes)
            return
        operands = list(op.operands)
        others = operands[1:]
        if others != of_run or types([operands[0], *op.results]) != two_states:
            _gate.verify_types(op)
            of_run = others
        params, _, dynamic_wires = others
        verify_gate(read_gate(op), params, dynamic_wires)

    return verify
