"""The quantum dialect: circuits on a device, in order of a state handle.

    %r = "quantum.seed"() {circuit = 0 : i64}
    %s0 = "quantum.begin"(%r, %anchor) {
        library = "...", factory = "LightningSimulator", kwargs = "{}", qubits = 2 : i64,
        shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 1 : i64, rows = 0 : i64,
        name = "f", site = "f.py:1"}
    %s1 = "quantum.gate"(%s0, %params, %offset, %wires) {name = "RX", slots = array<i64: 0>,
        wires = array<i64: 0>}
    %s2 = "quantum.gates"(%s0, %params, %offset, %wires, %iterations) {names, code, constants}
    %s2a, %m = "quantum.mid_measure"(%s2, %wire) {postselect = -1 : i64, reset = 0 : i64,
        site = "f.py:3"}
    %s2b, %more, %counts = "quantum.restart"(%s2a)
    %s3, %e = "quantum.measure"(%s2, %data) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64}
    %s4, %j = "quantum.jacobian"(%s3)
    %s5, %es = "quantum.replay"(%s4, %data, %all_params, %index, %amount) {code}
    %s6, %js = "quantum.replay_jacobian"(%s5, %data, %all_params, %index, %amount) {code}
    %t = "quantum.vjp"(%s6, %cotangents)
    %c = "quantum.cotangents"(%s6, %t, %number)
    %d = "quantum.direction"(%s6, %zero, %tangents, %number)
    %s7 = "quantum.after"(%s6, %c)
    "quantum.end"(%s7)

The handle is ``tensor<2xui32>``; every operation takes the state before it and returns
the state after it, so data dependence is program order.  A slot ``s >= 0`` is
``%params[s]`` and ``s < 0`` is ``constants[-1-s]``; a wire ``w < 0`` is ``%wires[-1-w]``.
A gate may have ``constants``, ``adjoint``, ``control_wires`` and ``control_values`` too; what
it lacks is empty, or false.
``quantum.gates`` is a straight run of gates, or the iterations of a loop of one, as the
runtime takes it.  Codes are those of ``runtime/contract.toml``.

With ``rows > 0`` it is a batch: so many circuits of the same operations, which the runtime runs
on several threads.  What the rows do not share has an axis of rows in front (``%params``,
``%wires``, ``%data``, ``%all_params``), and so has every result but the state.  With
``jacobian = 1`` the last result of ``quantum.measure`` is the derivative.

Numbers are in double precision.  What builds an operation takes and gives those of the program,
which may be in single precision, and puts conversions around it.
"""

from collections.abc import Callable, Mapping, Sequence

from bellhop_mlir._bindings import ir, register_dialect
from bellhop_mlir._walk import types
from bellhop_mlir.dialects._attributes import require_attributes
from bellhop_mlir.dialects._precision import DoubleSignature, whole_bits
from bellhop_mlir.dialects.gate import (
    GATE_ATTRIBUTES,
    OPTIONAL_GATE_ATTRIBUTES,
    Gate,
    read_gate,
    verify_gate,
)
from bellhop_mlir.errors import VerificationError

STATE = "tensor<2xui32>"
SEED = "tensor<4xui32>"

# Those of a batch have an axis of rows.
_NUMBERS = "tensor<[?x]?xf64>"
_WIRES = "tensor<[?x]?xi32>"
_BOOL = "tensor<i1>"
_INTEGER = "tensor<i32>"

_RUN = (STATE, _NUMBERS, _INTEGER, _WIRES)
_REPLAY = (STATE, _NUMBERS, _NUMBERS, "tensor<?x?xi32>", "tensor<?x?xf64>")

# By name.  What operations other than quantum.gate must have goes to the runtime as it is.
OPERATIONS: dict[str, DoubleSignature] = {}


def _operation(
    name: str,
    operands: tuple[str, ...],
    results: tuple[str, ...],
    attributes: Mapping[str, str] | None = None,
    optional: Mapping[str, str] | None = None,
) -> DoubleSignature:
    name = f"quantum.{name}"
    OPERATIONS[name] = DoubleSignature(name, operands, results, attributes or {}, optional or {})
    return OPERATIONS[name]


@register_dialect
class QuantumDialect(ir.Dialect):
    """Namespace of the operations below."""

    DIALECT_NAMESPACE = "quantum"


def state_type() -> ir.Type:
    """Return the type of the state handle."""
    return ir.Type.parse(STATE)


_seed = _operation("seed", (), (SEED,), {"circuit": "i64"})


def seed(circuit: int) -> ir.Value:
    """Build a ``quantum.seed`` for the circuit of a number."""
    return _seed.build([], circuit=circuit)[0]


_begin = _operation(
    "begin",
    ("...",),
    (STATE,),
    {
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
    {"passes": "string"},
)


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

    Args:
        anchors: what it depends on; the first is the seed, if there is one.
        library: the device's plugin.
        factory: its name in there.
        kwargs: what it takes.
        qubits: how many it has.
        shots: of each measurement; 0 for exact ones.
        record: whether it keeps the gates.
        tree: 1 to go through the mid-circuit outcomes that happen, 2 through all; 3 to draw
            them until postselections hold, 4 also, remembering nothing; else 0.
        seeded: whether there is a seed.
        rows: those of a batch, or 0.
        name: that of the quantum function, which profiles show.
        site: its line.
        passes: those of transform-circuits.
    """
    asked = {"passes": " ".join(passes)} if passes else {}
    return _begin.build(
        anchors,
        library=library,
        factory=factory,
        kwargs=kwargs,
        qubits=qubits,
        shots=shots,
        record=record,
        tree=tree,
        seeded=seeded,
        rows=rows,
        name=name,
        site=site,
        **asked,
    )[0]


_gate = _operation("gate", _RUN, (STATE,), GATE_ATTRIBUTES, OPTIONAL_GATE_ATTRIBUTES)


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


_gates = _operation(
    "gates",
    (*_RUN, f"[{_INTEGER}]"),
    (STATE,),
    {"names": "string", "code": "array<i64>", "constants": "array<f64>"},
)


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
    return _gates.build([state, *operands], names=names_, code=code, constants=constants)[0]


_mid_measure = _operation(
    "mid_measure",
    (STATE, _INTEGER),
    (STATE, _BOOL),
    {"postselect": "i64", "reset": "i64", "site": "string"},
)


def mid_measure(
    state: ir.Value, wire: ir.Value, *, postselect: int, reset: bool, site: str
) -> list[ir.Value]:
    """Build a ``quantum.mid_measure``; return the state after it and the outcome."""
    return _mid_measure.build([state, wire], postselect=postselect, reset=reset, site=site)


_restart = _operation("restart", (STATE,), (STATE, _BOOL, _BOOL))


def restart(state: ir.Value) -> list[ir.Value]:
    """Build a ``quantum.restart``.

    Returns:
        the state, whether to run again, and whether the run counts.
    """
    return _restart.build([state])


_measure = _operation(
    "measure", (STATE, _NUMBERS), (STATE, "..."), {"code": "array<i64>", "jacobian": "i64"}
)


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
    return _measure.build([state, data], results, code=code, jacobian=jacobian)


_jacobian = _operation("jacobian", (STATE,), (STATE, "tensor<?x?xf64>"))


def jacobian(state: ir.Value, result: ir.Type) -> list[ir.Value]:
    """Build a ``quantum.jacobian``; return the state after it and the derivative."""
    return _jacobian.build([state], [result])


_replay = _operation("replay", _REPLAY, (STATE, "..."), {"code": "array<i64>"})


def replay(
    operands: Sequence[ir.Value], code: Sequence[int], results: Sequence[ir.Type]
) -> list[ir.Value]:
    """Build a ``quantum.replay``; return the state after it and the values."""
    return _replay.build(operands, results, code=code)


_replay_jacobian = _operation(
    "replay_jacobian", _REPLAY, (STATE, "tensor<[?x]?x?x?xf64>"), {"code": "array<i64>"}
)


def replay_jacobian(
    operands: Sequence[ir.Value], code: Sequence[int], result: ir.Type
) -> list[ir.Value]:
    """Build a ``quantum.replay_jacobian``; return the state after it and the derivatives."""
    return _replay_jacobian.build(operands, [result], code=code)


_shift = _operation(
    "shift",
    (STATE, "tensor<?xf64>", "tensor<?xf64>", "tensor<?xf64>", "tensor<?xf64>"),
    (STATE, _INTEGER),
    {"code": "array<i64>", "sizes": "array<i64>", "squares": "array<i64>"},
)


def shift(
    operands: Sequence[ir.Value], code: Sequence[int], sizes: Sequence[int], squares: Sequence[int]
) -> list[ir.Value]:
    """Build a ``quantum.shift``; return the state after it and the number of the derivative."""
    return _shift.build(operands, code=code, sizes=sizes, squares=squares)


_directional_derivative = _operation(
    "directional_derivative",
    (
        STATE,
        *["tensor<?xf64>"] * 4,
        *[_INTEGER] * 2,
        "tensor<?x?xi32>",
        *["tensor<?x?xf64>"] * 2,
    ),
    ("tensor<?x?x?xf64>",),
    {
        "code": "array<i64>",
        "sizes": "array<i64>",
        "squares": "array<i64>",
        "adjoint": "i64",
        "kept": "i64",
    },
)


def directional_derivative(
    operands: Sequence[ir.Value],
    measured: tuple[Sequence[int], Sequence[int], Sequence[int]],
    result: ir.Type,
    *,
    adjoint: bool,
    kept: bool,
) -> ir.Value:
    """Build a ``quantum.directional_derivative`` and return its value.

    Args:
        operands: see ``runtime/contract.toml``.
        measured: code, sizes and squares of the measurements.
        result: the type of the value.
        adjoint: whether the device differentiates once.
        kept: whether the first derivative was kept.
    """
    code, sizes, squares = measured
    return _directional_derivative.build(
        operands, [result], code=code, sizes=sizes, squares=squares, adjoint=adjoint, kept=kept
    )[0]


# How many bits of a whole number a proxy has in the program: it is more than a number.
_PROXY_BITS = {"bits": "i64"}

_vjp = _operation("vjp", (STATE, "tensor<?x?xf64>", _INTEGER), ("tensor<?xf64>",), _PROXY_BITS)


def vjp(state: ir.Value, cotangents: ir.Value, derivative: ir.Value, result: ir.Type) -> ir.Value:
    """Build a ``quantum.vjp`` and return the proxy of what the session holds then."""
    operands = [state, cotangents, derivative]
    return _vjp.build(operands, [result], bits=whole_bits(result))[0]


_cotangents = _operation("cotangents", (STATE, "tensor<?xf64>", _INTEGER), ("tensor<?x?xf64>",))


def cotangents(state: ir.Value, proxy: ir.Value, number: ir.Value, result: ir.Type) -> ir.Value:
    """Build a ``quantum.cotangents`` and return those of the parameters from a number on."""
    return _cotangents.build([state, proxy, number], [result])[0]


_steps = _operation("steps", (STATE,), (STATE, _INTEGER))


def steps(state: ir.Value) -> list[ir.Value]:
    """Build a ``quantum.steps``; return the state after it and how many steps there are."""
    return _steps.build([state])


_direction = _operation(
    "direction",
    (STATE, "tensor<?xf64>", "tensor<?x?xf64>", _INTEGER),
    ("tensor<?xf64>",),
    _PROXY_BITS,
)


def direction(state: ir.Value, proxies: ir.Value, parts: ir.Value, number: ir.Value) -> ir.Value:
    """Build a ``quantum.direction`` and return the proxies of the sums."""
    operands = [state, proxies, parts, number]
    return _direction.build(operands, [proxies.type], bits=whole_bits(proxies.type))[0]


_remember = _operation("remember", (STATE, _BOOL, _INTEGER), (STATE,))


def remember(state: ir.Value, outcome: ir.Value, number: ir.Value) -> ir.Value:
    """Build a ``quantum.remember`` and return the state."""
    return _remember.build([state, outcome, number])[0]


_recall = _operation("recall", (STATE, _INTEGER), (_BOOL,))


def recall(state: ir.Value, number: ir.Value) -> ir.Value:
    """Build a ``quantum.recall`` and return the outcome."""
    return _recall.build([state, number])[0]


_after = _operation("after", (STATE, "..."), (STATE,))


def after(state: ir.Value, anchors: Sequence[ir.Value]) -> ir.Value:
    """Build a ``quantum.after`` and return the state."""
    return _after.build([state, *anchors])[0]


_end = _operation("end", (STATE,), ())


def end(state: ir.Value) -> None:
    """Build a ``quantum.end``."""
    _end.build([state])


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
