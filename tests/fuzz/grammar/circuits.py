"""QNodes: gates on known and computed wires, between all else, and what is measured."""

from .expressions import constant, expression
from .scope import Kind, Scope

SHOTS = 2000
ROTATIONS = ("RX", "RY", "PhaseShift", "RZ")
FIXED = ("Hadamard", "S", "PauliX", "T")
PAIRS = ("CNOT", "SWAP", "CZ")
PAIR_ROTATIONS = ("CRX", "IsingXX", "SingleExcitation", "CRot")


def wire(scope: Scope) -> str:
    """Draw a wire: known, computed, or seldom one that is perhaps not there."""
    known = str(scope.one_of(*range(scope.wires)))
    if scope.chance(2) or not scope.variables[Kind.INT]:
        return known
    computed = f"{expression(scope, Kind.INT, 1)} - {scope.one_of(0, 1)}"
    return computed if scope.chance(8) else f"({computed}) % {scope.wires}"


def pair(scope: Scope) -> str:
    first = wire(scope)
    return f"[{first}, ({first} + {scope.one_of(*range(1, scope.wires))}) % {scope.wires}]"


def gate(scope: Scope) -> None:
    """Draw a gate, or seldom a modified one."""
    angle = expression(scope, Kind.FLOAT, 1)
    form = scope.one_of("rotation", "fixed", *(["pair", "excitation"] * (scope.wires > 1)))
    if form == "pair":
        made = f"qml.{scope.one_of(*PAIRS)}(wires={pair(scope)})"
    elif form == "excitation":
        name = scope.one_of(*PAIR_ROTATIONS)
        more = f", {constant(scope)}, {constant(scope)}" * (name == "CRot")
        made = f"qml.{name}({angle}{more}, wires={pair(scope)})"
    elif form == "fixed":
        made = f"qml.{scope.one_of(*FIXED)}(wires={wire(scope)})"
    else:
        name = scope.one_of(*ROTATIONS)
        made = f"qml.{name}({angle}, wires={wire(scope)})"
        if scope.chance(4):
            made = f"qml.adjoint(qml.{name})({angle}, wires={wire(scope)})"
        elif scope.wires > 1 and scope.chance(4):
            first, second = pair(scope)[1:-1].rsplit(", ", 1)
            made = f"qml.ctrl(qml.{name}, control={first})({angle}, wires={second})"
    scope.lines.append(made)


def measure(scope: Scope) -> str:
    """Draw a measurement in the middle, and what follows of it."""
    outcome = scope.fresh("m")
    options = scope.one_of("", ", reset=True", ", postselect=0", ", postselect=1")
    where = wire(scope)
    scope.lines += [
        f"qml.RY(0.83, wires={where})",
        f"{outcome} = bellhop.measure({where}{options})",
    ]
    if scope.chance(2):
        inner = scope.inner(variables={kind: [] for kind in Kind})
        inner.variables[Kind.FLOAT] += scope.variables[Kind.FLOAT]
        for _ in range(scope.one_of(1, 2)):
            gate(inner)
        branch = scope.fresh("branch")
        scope.block(f"def {branch}():", inner)
        scope.lines.append(f"bellhop.cond({outcome}, {branch})()")
    return outcome


def circuit(scope: Scope) -> None:
    """Draw a QNode, a call of it, and what becomes of its results."""
    name = scope.fresh("circuit")
    # The derivative of a large one takes its reference minutes.
    wires = scope.one_of(1, 2, 3, 1, 2, 3, 3 if scope.traits.derivative else 11)
    shots = scope.one_of(None, None, None, SHOTS) if scope.random is not None else None
    measures = not scope.traits.mapped and scope.chance(3)
    # Three rows of parameters.
    broadcast = not shots and not measures and scope.chance(5)
    inner = scope.inner(wires=wires, in_circuit=True, repeated=scope.repeated or measures)
    parameters = [scope.fresh("x"), scope.fresh("n")]
    inner.variables[Kind.FLOAT].append(parameters[0])
    inner.variables[Kind.INT].append(parameters[1])
    inner.lines.append(f"qml.RX({parameters[0]}, wires=0)")
    if broadcast:
        inner.lines.append(f"qml.RY(jnp.array([0.3, 1.2, 0.7]) * {parameters[0]}, wires=0)")
    inner.some()
    outcomes = []
    if measures:
        for _ in range(scope.one_of(1, 2)):
            outcomes.append(measure(inner))
            inner.some(most=1)
    measured = [
        measurement(inner, outcomes, exact=shots is None) for _ in range(scope.one_of(1, 2, 3))
    ]
    if broadcast:
        measured = [(text, "jnp.sum(jnp.abs({}))") for text, _ in measured]
    # Beside measurements in the middle they make it one random run.
    if not shots and not measures and scope.chance(6):
        measured.append((expression(inner, Kind.FLOAT, 1), "{}"))
    texts = [text for text, _ in measured]
    inner.lines.append(f"return {', '.join(texts)}")
    # The state of default.mixed is a matrix.
    is_vector = wires > 3 or any("qml.state" in text for text in texts)
    others = ["default.qubit"] + ["default.mixed"] * (not is_vector)
    simulator = scope.one_of(*["lightning.qubit"] * 3, *others)
    device = f'qml.device("{simulator}", wires={wires})'
    options = f", shots={shots}" if shots else ""
    scope.block(f"def {name}({', '.join(parameters)}):", inner, f"@qml.qnode({device}{options})")
    result = scope.fresh("q")
    arguments = f"{expression(scope, Kind.FLOAT, 1)}, {expression(scope, Kind.INT, 1)}"
    scope.lines.append(f"{result} = {name}({arguments})")
    for place, (_, number) in enumerate(measured):
        value = number.format(result if len(measured) == 1 else f"{result}[{place}]")
        if shots:
            scope.random.append(value)
        else:
            scope.add(Kind.FLOAT, value)


def measurement(scope: Scope, outcomes: list[str], exact: bool) -> tuple[str, str]:
    """Draw a measurement, and how its result becomes a number."""
    known = scope.one_of(*range(scope.wires))
    forms = ["expval", "expval", "var", "var", "probs"]
    if outcomes:
        forms += ["outcome"]
    elif exact:
        forms += [] if scope.traits.derivative else ["state"]
    if not exact:
        forms += ["sample", "counts"]
    form = scope.one_of(*forms)
    if form == "probs":
        wires = scope.one_of(f"wires=[{known}]", f"op=qml.{letter(scope)}({known})", "")
        return f"qml.probs({wires})", "{}[-1]"
    if form == "outcome":
        return f"qml.expval({scope.one_of(*outcomes)})", "{}"
    if form == "state":
        return "qml.state()", "jnp.abs({}[0]) ** 2"
    if form == "sample":
        return f"qml.sample(wires={known})", "jnp.mean({}, axis=0)"
    if form == "counts":
        # Where a postselection fails, PennyLane counts fewer shots.
        return "qml.counts(all_outcomes=True)", "{0}[1] / jnp.sum({0}[1])"
    return f"qml.{form}({observable(scope, known)})", "{}"


def letter(scope: Scope) -> str:
    return scope.one_of("Z", "X", "Y")


def observable(scope: Scope, known: int) -> str:
    """Draw an observable, which may share wires and bases with the others of its circuit."""
    other = (known + 1) % scope.wires
    form = scope.one_of("pauli", "pauli", "product", "sum", "alike", "Hadamard", "Hermitian")
    if form == "product" and other != known:
        return f"qml.{letter(scope)}({known}) @ qml.X({other})"
    if form == "sum":
        factor = scope.one_of("0.5", expression(scope, Kind.FLOAT, 1))
        return f"{factor} * qml.{letter(scope)}({known}) + qml.Z(0)"
    if form == "alike":
        name = letter(scope)
        return f"qml.{name}({known}) + 0.5 * qml.{name}({other})"
    if form == "Hadamard":
        return f"qml.Hadamard({known})"
    if form == "Hermitian":
        return f"qml.Hermitian(np.array([[0.3, 0.1 - 0.4j], [0.1 + 0.4j, -0.9]]), wires={known})"
    return f"qml.{letter(scope)}(wires={wire(scope)})"
