"""The quantum dialect: circuits on a device, in order of a state handle.

    %r = "quantum.seed"() {circuit = 0 : i64}
    %s0 = "quantum.begin"(%r, %anchor) {
        library = "...", factory = "LightningSimulator", kwargs = "{}", qubits = 2 : i64,
        shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 1 : i64, rows = 0 : i64,
        name = "f", site = "f.py:1"}
    %s1 = "quantum.gate"(%s0, %params, %offset, %wires) {name = "RX", slots = array<i64: 0>,
        wires = array<i64: 0>}
    %s2 = "quantum.gates"(%s0, %params, %offset, %wires, %turns) {names, code, constants}
    %s2a, %m = "quantum.mid_measure"(%s2, %wire) {postselect = -1 : i64, reset = 0 : i64,
        site = "f.py:3"}
    %s2b, %more = "quantum.restart"(%s2a)
    %s3, %e = "quantum.measure"(%s2, %data) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64}
    %s4, %j = "quantum.jacobian"(%s3)
    %s5, %es = "quantum.replay"(%s4, %data, %all_params, %index, %amount) {code}
    %s6, %js = "quantum.replay_jacobian"(%s5, %data, %all_params, %index, %amount) {code}
    %t = "quantum.weigh"(%s6, %cotangents)
    %c = "quantum.weights"(%s6, %t, %number)
    %s7 = "quantum.after"(%s6, %c)
    "quantum.end"(%s7)

The handle is ``tensor<2xui32>``; every operation takes the state before it and returns
the state after it, so data dependence is program order.  A slot ``s >= 0`` is
``%params[s]`` and ``s < 0`` is ``constants[-1-s]``; a wire ``w < 0`` is ``%wires[-1-w]``.
A gate may have ``constants``, ``adjoint``, ``control_wires`` and ``control_values`` too; what
it lacks is empty, or false.
``quantum.gates`` is a straight run of gates, or the turns of a loop of one, as the runtime
takes it.  Codes are those of ``runtime/contract.toml``.

With ``rows > 0`` it is a batch: so many circuits of the same operations, which the runtime runs
on several threads.  What the rows do not share has an axis of rows in front (``%params``,
``%wires``, ``%data``, ``%all_params``), and so has every result but the state.  With
``jacobian = 1`` the last result of ``quantum.measure`` is the derivative.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bellhop_mlir._bindings import ir, register_dialect
from bellhop_mlir._walk import types
from bellhop_mlir.dialects._attributes import require_attributes
from bellhop_mlir.errors import VerificationError

STATE = "tensor<2xui32>"
SEED = "tensor<4xui32>"

# What stands in brackets may be missing: the rows of a batch, and how many turns a run has.
_NUMBERS = "tensor<[?x]?xf64>"
_WIRES = "tensor<[?x]?xi32>"

_RUN = (STATE, _NUMBERS, "tensor<i32>", _WIRES)
_REPLAY = (STATE, _NUMBERS, _NUMBERS, "tensor<?x?xi32>", "tensor<?x?xf64>")
_OPERANDS: dict[str, tuple[str, ...]] = {
    "quantum.seed": (),
    "quantum.begin": ("...",),
    "quantum.gate": _RUN,
    "quantum.gates": (*_RUN, "[tensor<i32>]"),
    "quantum.mid_measure": (STATE, "tensor<i32>"),
    "quantum.restart": (STATE,),
    "quantum.measure": (STATE, _NUMBERS),
    "quantum.jacobian": (STATE,),
    "quantum.replay": _REPLAY,
    "quantum.replay_jacobian": _REPLAY,
    "quantum.shift": (STATE, "tensor<?xf64>", "tensor<?xf64>", "tensor<?xf64>", "tensor<?xf64>"),
    "quantum.weigh": (STATE, "tensor<?x?xf64>", "tensor<i32>"),
    "quantum.weights": (STATE, "tensor<?xf64>", "tensor<i32>"),
    "quantum.remember": (STATE, "tensor<i1>", "tensor<i32>"),
    "quantum.recall": (STATE, "tensor<i32>"),
    "quantum.after": (STATE, "..."),
    "quantum.end": (STATE,),
}
_RESULTS: dict[str, tuple[str, ...]] = {
    "quantum.seed": (SEED,),
    "quantum.begin": (STATE,),
    "quantum.gate": (STATE,),
    "quantum.gates": (STATE,),
    "quantum.mid_measure": (STATE, "tensor<i1>"),
    "quantum.restart": (STATE, "tensor<i1>"),
    "quantum.measure": (STATE, "..."),
    "quantum.jacobian": (STATE, "tensor<?x?xf64>"),
    "quantum.replay": (STATE, "..."),
    "quantum.replay_jacobian": (STATE, "tensor<[?x]?x?x?xf64>"),
    "quantum.shift": (STATE, "tensor<i32>"),
    "quantum.weigh": ("tensor<?xf64>",),
    "quantum.weights": ("tensor<?x?xf64>",),
    "quantum.remember": (STATE,),
    "quantum.recall": ("tensor<i1>",),
    "quantum.after": (STATE,),
    "quantum.end": (),
}

# The attributes that an operation must have and their types.  Those of all but quantum.gate go
# to the runtime as they are.
ATTRIBUTES = {
    "quantum.seed": {"circuit": "i64"},
    "quantum.begin": {
        "library": "string",
        "factory": "string",
        "kwargs": "string",
        "qubits": "i64",
        "shots": "i64",
        "record": "i64",
        "tree": "i64",
        "seeded": "i64",
        "rows": "i64",
        "name": "string",
        "site": "string",
    },
    "quantum.gate": {"name": "string", "wires": "array<i64>"},
    "quantum.gates": {
        "names": "string",
        "code": "array<i64>",
        "constants": "array<f64>",
    },
    "quantum.mid_measure": {"postselect": "i64", "reset": "i64", "site": "string"},
    "quantum.restart": {},
    "quantum.measure": {"code": "array<i64>", "jacobian": "i64"},
    "quantum.jacobian": {},
    "quantum.replay": {"code": "array<i64>"},
    "quantum.replay_jacobian": {"code": "array<i64>"},
    "quantum.shift": {"code": "array<i64>", "sizes": "array<i64>", "squares": "array<i64>"},
    "quantum.weigh": {},
    "quantum.weights": {},
    "quantum.remember": {},
    "quantum.recall": {},
    "quantum.after": {},
    "quantum.end": {},
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


# Those that a gate may lack.
_OPTIONAL_OF_GATES = {
    "slots": "array<i64>",
    "constants": "array<f64>",
    "adjoint": "bool",
    "control_wires": "array<i64>",
    "control_values": "array<i64>",
}
_CLASSES = {"string": ir.StringAttr, "bool": ir.BoolAttr}
_CLASSES |= {"array<i64>": ir.DenseI64ArrayAttr, "array<f64>": ir.DenseF64ArrayAttr}
_OF_GATES = {
    name: _CLASSES[type_]
    for name, type_ in (ATTRIBUTES["quantum.gate"] | _OPTIONAL_OF_GATES).items()
}


@register_dialect
class QuantumDialect(ir.Dialect):
    """Namespace of the operations below."""

    DIALECT_NAMESPACE = "quantum"


def read_gate(op: ir.Operation) -> Gate:
    """Return the static attributes of a ``quantum.gate``.

    Raises:
        VerificationError: if it lacks one, or one is of another type.
    """
    # Circuits have thousands of gates: what is wrong is found out where something is.
    fields: dict[str, Any] = {}
    for name, attribute in op.attributes.items():
        class_ = _OF_GATES.get(name)
        if class_ is None:
            continue
        if type(attribute) is not class_:
            require_attributes(op, {name: _OPTIONAL_OF_GATES.get(name, "")})
        is_array = class_ is ir.DenseI64ArrayAttr or class_ is ir.DenseF64ArrayAttr
        # Indexing is three times as fast as iterating.
        fields[name] = (
            tuple([attribute[index] for index in range(len(attribute))])
            if is_array
            else attribute.value
        )
    if "name" not in fields or "wires" not in fields:
        require_attributes(op, ATTRIBUTES["quantum.gate"])
    return Gate(**fields)


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
    tree: int,
    seeded: bool,
    rows: int,
    name: str,
    site: str,
    passes: Sequence[str] = (),
) -> ir.Value:
    """Build a ``quantum.begin`` and return the state.

    The first anchor is the seed, if there is one; ``rows`` are those of a batch, or 0;
    transform-circuits runs ``passes``.  ``site`` is
    the line of the quantum function, which profiles show with its ``name``.
    """
    i64 = ir.IntegerType.get_signless(64)
    asked = {"passes": ir.StringAttr.get(" ".join(passes))} if passes else {}
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
            "tree": ir.IntegerAttr.get(i64, tree),
            "seeded": ir.IntegerAttr.get(i64, int(seeded)),
            "rows": ir.IntegerAttr.get(i64, rows),
            "name": ir.StringAttr.get(name),
            "site": ir.StringAttr.get(site),
            **asked,
        },
    ).result


def seed(circuit: int) -> ir.Value:
    """Build a ``quantum.seed`` for the circuit of a number."""
    i64 = ir.IntegerType.get_signless(64)
    return ir.Operation.create(
        "quantum.seed",
        results=[ir.Type.parse(SEED)],
        attributes={"circuit": ir.IntegerAttr.get(i64, circuit)},
    ).result


def mid_measure(
    state: ir.Value, wire: ir.Value, *, postselect: int, reset: bool, site: str
) -> list[ir.Value]:
    """Build a ``quantum.mid_measure``; return the state after it and the outcome."""
    i64 = ir.IntegerType.get_signless(64)
    op = ir.Operation.create(
        "quantum.mid_measure",
        results=[state.type, ir.Type.parse("tensor<i1>")],
        operands=[state, wire],
        attributes={
            "postselect": ir.IntegerAttr.get(i64, postselect),
            "reset": ir.IntegerAttr.get(i64, int(reset)),
            "site": ir.StringAttr.get(site),
        },
    )
    return list(op.results)


def restart(state: ir.Value) -> list[ir.Value]:
    """Build a ``quantum.restart``; return the state and whether there is another run."""
    results = [state.type, ir.Type.parse("tensor<i1>")]
    op = ir.Operation.create("quantum.restart", results=results, operands=[state])
    return list(op.results)


def gate(
    state: ir.Value, params: ir.Value, offset: ir.Value, wires: ir.Value, gate: Gate
) -> ir.Value:
    """Build a ``quantum.gate`` and return the state after it."""
    array = ir.DenseI64ArrayAttr.get
    attributes = {"name": ir.StringAttr.get(gate.name), "wires": array(gate.wires)}
    if gate.slots:
        attributes["slots"] = array(gate.slots)
    if gate.constants:
        attributes["constants"] = ir.DenseF64ArrayAttr.get(gate.constants)
    if gate.adjoint:
        attributes["adjoint"] = ir.BoolAttr.get(True)
    if gate.control_wires:
        attributes["control_wires"] = array(gate.control_wires)
        attributes["control_values"] = array(gate.control_values)
    return ir.Operation.create(
        "quantum.gate",
        results=[state.type],
        operands=[state, params, offset, wires],
        attributes=attributes,
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
        operands: parameters, offset, wires, and how many turns there are, where it is not one.
        names: those of the table, as the code and the constants are.
        code: see ``runtime/contract.toml``.
        constants: what slots below zero refer to.
    """
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
    state: ir.Value,
    data: ir.Value,
    code: Sequence[int],
    results: Sequence[ir.Type],
    *,
    jacobian: bool = False,
) -> list[ir.Value]:
    """Build a ``quantum.measure``; return the state after it and the values.

    Args:
        state: the state.
        data: numbers of the observables.
        code: the measurements.
        results: types of the values.
        jacobian: whether the last of the values is the derivative of the others.
    """
    op = ir.Operation.create(
        "quantum.measure",
        results=[state.type, *results],
        operands=[state, data],
        attributes={
            "code": ir.DenseI64ArrayAttr.get(list(code)),
            "jacobian": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(jacobian)),
        },
    )
    return list(op.results)


def jacobian(state: ir.Value, result: ir.Type) -> list[ir.Value]:
    """Build a ``quantum.jacobian``; return the state after it and the derivative."""
    op = ir.Operation.create("quantum.jacobian", results=[state.type, result], operands=[state])
    return list(op.results)


def replay(
    operands: Sequence[ir.Value], code: Sequence[int], results: Sequence[ir.Type]
) -> list[ir.Value]:
    """Build a ``quantum.replay``; return the state after it and the values."""
    return _replay("quantum.replay", operands, code, results)


def replay_jacobian(
    operands: Sequence[ir.Value], code: Sequence[int], result: ir.Type
) -> list[ir.Value]:
    """Build a ``quantum.replay_jacobian``; return the state after it and the derivatives."""
    return _replay("quantum.replay_jacobian", operands, code, [result])


def _replay(
    name: str, operands: Sequence[ir.Value], code: Sequence[int], results: Sequence[ir.Type]
) -> list[ir.Value]:
    op = ir.Operation.create(
        name,
        results=[operands[0].type, *results],
        operands=list(operands),
        attributes={"code": ir.DenseI64ArrayAttr.get(list(code))},
    )
    return list(op.results)


def shift(
    operands: Sequence[ir.Value], code: Sequence[int], sizes: Sequence[int], squares: Sequence[int]
) -> list[ir.Value]:
    """Build a ``quantum.shift``; return the state after it and the number of the derivative."""
    array = ir.DenseI64ArrayAttr.get
    op = ir.Operation.create(
        "quantum.shift",
        results=[operands[0].type, ir.Type.parse("tensor<i32>")],
        operands=list(operands),
        attributes={
            "code": array(list(code)),
            "sizes": array(list(sizes)),
            "squares": array(list(squares)),
        },
    )
    return list(op.results)


def weigh(state: ir.Value, cotangents: ir.Value, derivative: ir.Value, result: ir.Type) -> ir.Value:
    """Build a ``quantum.weigh`` and return the token of what the session holds then."""
    operands = [state, cotangents, derivative]
    return ir.Operation.create("quantum.weigh", results=[result], operands=operands).result


def weights(state: ir.Value, token: ir.Value, number: ir.Value, result: ir.Type) -> ir.Value:
    """Build a ``quantum.weights`` and return those of the parameters from a number on."""
    operands = [state, token, number]
    return ir.Operation.create("quantum.weights", results=[result], operands=operands).result


def remember(state: ir.Value, outcome: ir.Value, number: ir.Value) -> ir.Value:
    """Build a ``quantum.remember`` and return the state."""
    operands = [state, outcome, number]
    return ir.Operation.create("quantum.remember", results=[state.type], operands=operands).result


def recall(state: ir.Value, number: ir.Value) -> ir.Value:
    """Build a ``quantum.recall`` and return the outcome."""
    type_ = ir.Type.parse("tensor<i1>")
    return ir.Operation.create("quantum.recall", results=[type_], operands=[state, number]).result


def after(state: ir.Value, anchors: Sequence[ir.Value]) -> ir.Value:
    """Build a ``quantum.after`` and return the state."""
    operands = [state, *anchors]
    return ir.Operation.create("quantum.after", results=[state.type], operands=operands).result


def end(state: ir.Value) -> None:
    """Build a ``quantum.end``."""
    ir.Operation.create("quantum.end", operands=[state])


def verifier() -> Callable[[ir.Operation], None]:
    """Return the check of one operation of this dialect.

    It may be called for one operation after another.
    """
    two_states = [state_type()] * 2
    # What the gate before takes beside the state; in a run of gates it is the same.
    of_run: list[ir.Value] | None = None

    def verify(op: ir.Operation) -> None:
        nonlocal of_run
        name = op.name
        if name != "quantum.gate":
            if name not in ATTRIBUTES:
                raise VerificationError(f"unknown operation {name}")
            _verify_operands_and_results(op)
            require_attributes(op, ATTRIBUTES[name])
            return
        operands = list(op.operands)
        others = operands[1:]
        if others != of_run or types([operands[0], *op.results]) != two_states:
            _verify_operands_and_results(op)
            of_run = others
        _verify_gate(read_gate(op), others)

    return verify


def _verify_operands_and_results(op: ir.Operation) -> None:
    _verify_types(op, "operands", types(op.operands), _OPERANDS[op.name])
    _verify_types(op, "results", types(op.results), _RESULTS[op.name])


def _verify_types(
    op: ir.Operation, role: str, observed: Sequence[ir.Type], expected: Sequence[str]
) -> None:
    forms = [_form(str(type_)) for type_ in observed]
    if expected[-1:] == ("...",):
        forms[len(expected) - 1 :] = ["..."]
    wanted = _present(expected, len(forms))
    fits = len(forms) == len(wanted) and all(
        form in (choice.replace("[?x]", ""), choice.replace("[?x]", "?x"))
        for form, choice in zip(forms, wanted, strict=True)
    )
    if not fits:
        raise VerificationError(
            f"{op.name} has {role} of types ({', '.join(map(str, observed))}); "
            f"they must be ({', '.join(expected)})"
        )


def _present(expected: Sequence[str], count: int) -> Sequence[str]:
    """Return what is expected of so many types, of which the last may be missing."""
    *first, last = expected or ("",)
    if not last.startswith("["):
        return expected
    return first if count == len(first) else [*first, last[1:-1]]


def _form(type_: str) -> str:
    return type_ if type_ in (STATE, SEED) else re.sub(r"\d+x", "?x", type_)


def _verify_gate(gate: Gate, others: Sequence[ir.Value]) -> None:
    if len(gate.control_wires) != len(gate.control_values):
        raise VerificationError(
            f"quantum.gate {gate.name} has {len(gate.control_wires)} control wires and "
            f"{len(gate.control_values)} control values"
        )
    params, _, dynamic_wires = others
    if gate.slots:
        _verify_index(gate, "constant", -1 - min(gate.slots), len(gate.constants))
        _verify_index(gate, "parameter", max(gate.slots), _length(params))
    lowest = min(gate.wires + gate.control_wires, default=0)
    if lowest < 0:
        _verify_index(gate, "dynamic wire", -1 - lowest, _length(dynamic_wires))


def _length(numbers: ir.Value) -> int:
    """Return how many a row has."""
    return ir.RankedTensorType(numbers.type).shape[-1]


def _verify_index(gate: Gate, what: str, highest: int, count: int) -> None:
    if highest >= count:
        raise VerificationError(
            f"quantum.gate {gate.name} refers to {what} {highest}, and there are {count}"
        )
