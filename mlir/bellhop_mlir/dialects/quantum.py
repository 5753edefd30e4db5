"""The quantum dialect: circuits on a device, in order of a state handle.

    %r = "quantum.seed"() {circuit = 0 : i64}
    %s0 = "quantum.begin"(%r, %anchor) {
        library = "...", factory = "LightningSimulator", kwargs = "{}", qubits = 2 : i64,
        shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 1 : i64, rows = 0 : i64,
        engine = 1 : i64, precision = 64 : i64, name = "f", site = "f.py:1"}
    %s2 = "quantum.gates"(%s0, %params, %offset, %wires, %iterations) {names = "RX\\0ACNOT",
        code = array<i64: 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 2, 0, 0, 1>, constants = array<f64>}
    %s2a, %m = "quantum.mid_measure"(%s2, %wire) {postselect = -1 : i64, reset = 0 : i64,
        site = "f.py:3"}
    %s2b, %more, %counts = "quantum.restart"(%s2a)
    %s3, %e = "quantum.measure"(%s2, %data) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64}
    %s4, %saved, %h = "quantum.derivative"(%s3, %data, %n_all_params, %rules, %basis, %steps,
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
the state after it, so data dependence is program order.  ``runtime/contract.toml`` defines all
other operands, results and codes, under the names of the custom calls.  ``quantum.gates`` is a
sequence of gates (``gate.py`` encodes them), or a loop over such a sequence.  ``quantum.run`` is a
whole circuit, without a handle.

With ``rows > 0`` it is a batch of this number of circuits with the same operations, which the
runtime runs on several threads.  Operands that differ between rows have a leading axis of rows
(``%params``, ``%wires``, ``%data``, ``%n_all_params``), and so has every result except the state.
With ``jacobian = 1`` the last result of ``quantum.measure`` is the Jacobian; with ``jacobian = 2``
its only result is the VJP with the cotangents of its values, which are an additional operand.

Numbers are in double precision.  The builders accept and return values in the program's precision,
and add conversions.
"""

from bellhop_mlir._bindings import ir, register_dialect
from bellhop_mlir.dialects._attributes import require_attributes
from bellhop_mlir.dialects._contract import CustomCall, find_custom_call
from bellhop_mlir.dialects._precision import DoubleSignature
from bellhop_mlir.dialects._precision import to_double as to_double
from bellhop_mlir.errors import VerificationError

# The attribute of custom calls with the number of the program that they belong to.
PROGRAM = "program"

# By name.
OPERATIONS: dict[str, DoubleSignature] = {}


def _make_signature(
    name: str, signature: CustomCall | None = None, **optional: str
) -> DoubleSignature:
    """Make and register the builder of an operation of the quantum dialect.

    The result is called as ``begin(operands, result_types, **attributes)``. It is also added to
    ``OPERATIONS``, by which `verify_operation` finds it.

    Args:
        name: name of the operation without the dialect, such as ``begin``.
        signature: operands, results and attributes; None to take them from the contract's custom
            call ``bellhop_circuit_<name>``. The attribute ``program`` is left out.
        **optional: types of optional attributes, by name.
    """
    operands, results, attributes = signature or find_custom_call(f"bellhop_circuit_{name}")
    # The conversion to custom calls adds the number of the program.
    attributes = {key: type_ for key, type_ in attributes.items() if key != PROGRAM}
    name = f"quantum.{name}"
    OPERATIONS[name] = DoubleSignature(name, operands, results, attributes, optional)
    return OPERATIONS[name]


@register_dialect
class QuantumDialect(ir.Dialect):
    """The quantum dialect: namespace of operations such as ``quantum.gates``."""

    DIALECT_NAMESPACE = "quantum"


# Builders: call with operands, types of open results, and attributes. runtime/contract.toml
# describes them, except for ``backend``: the circuit's backend and its reason.
begin = _make_signature("begin", backend="string")
mid_measure = _make_signature("mid_measure")
restart = _make_signature("restart")
measure = _make_signature("measure")
score = _make_signature("score")
derivative = _make_signature("derivative")
jvp = _make_signature("jvp")
vjp = _make_signature("vjp")
cotangents = _make_signature("cotangents")
steps = _make_signature("steps")
direction = _make_signature("direction")
remember = _make_signature("remember")
recall = _make_signature("recall")
after = _make_signature("after")
end = _make_signature("end")
run = _make_signature("run")
gates = _make_signature("gates")
# The custom call also takes the program's table.
_SEED = find_custom_call("bellhop_seed")
seed = _make_signature("seed", _SEED._replace(operands=()))
STATE = gates.operands[0]
SEED = _SEED.results[0]


def returns_state(name: str) -> bool:
    """Return whether an operation of the quantum dialect takes and returns a state.

    The state of a circuit, a handle of type ``tensor<2xui32>``, is then the first operand and the
    first result.

    Args:
        name: name of the operation, such as ``quantum.gates``.
    """
    signature = OPERATIONS[name]
    return signature.operands[:1] == signature.results[:1] == (STATE,)


def verify_operation(op: ir.Operation) -> None:
    """Check the types and attributes of an operation of the quantum dialect.

    Raises:
        VerificationError: if they do not match the operation's signature, or if the
            operation is unknown.
    """
    if op.name not in OPERATIONS:
        raise VerificationError(f"unknown operation {op.name}")
    signature = OPERATIONS[op.name]
    signature.verify_types(op)
    require_attributes(op, signature.attributes)
