"""Files whose circuits were written to do harm: each is an error, at load or at the call."""

import re

import jax
import numpy as np
import pennylane as qml
import pytest
from repacked_files import members_of, repack

import bellhop
import bellhop_runtime

X = np.array([0.1, 0.2])
HUGE = 2**61


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=3))
    def gates(x):
        qml.RX(x[0], 0)
        qml.CNOT([0, 1])
        qml.RY(x[1], 1)
        return qml.expval(qml.Z(1))

    gates(X)
    path = tmp_path_factory.mktemp("honest") / "gates.bellhop"
    gates.save(path)
    return members_of(path)


BEGIN = (
    '%0 = "quantum.begin"(%arg0) {{backend = "engine", engine = {engine} : i64, factory = '
    "\"LightningSimulator\", kwargs = \"{{'mcmc': False, 'num_burnin': 0}}\", library = "
    '"lightning.qubit", name = "gates", precision = {precision} : i64, qubits = {qubits} : i64, record '  # noqa: E501
    '= {record} : i64, rows = {rows} : i64, seeded = 0 : i64, shots = {shots} : i64, site = "x.py:2", '  # noqa: E501
    "tree = {tree} : i64}} : (tensor<2xf64>) -> tensor<2xui32>"
)


def begin(**attributes):
    given = {
        "engine": 1,
        "precision": 64,
        "qubits": 3,
        "record": 3,
        "rows": 0,
        "shots": 0,
        "tree": 0,
    }
    return BEGIN.format(**given | attributes)


def constant(name, value, type_):
    return f"%{name} = stablehlo.constant dense<{value}> : tensor<{type_}>"


def gates(
    code, names="RX", params="8xf64", offset=0, wires="0xi32", before="%0", after="%1", count=1
):
    return "\n".join(
        (
            constant("p", "0.3", params)
            if not params.startswith("0")
            else constant("p", "", params),
            constant("o", offset, "i32"),
            constant("w", "" if wires.startswith("0") else 0, wires),
            constant("n", count, "i32"),
            f'{after} = "quantum.gates"({before}, %p, %o, %w, %n) {{code = array<i64: '
            f'{", ".join(map(str, code))}>, constants = array<f64: 0.5>, names = "{names}"}} : '
            f"(tensor<2xui32>, tensor<{params}>, tensor<i32>, tensor<{wires}>, tensor<i32>) -> "
            "tensor<2xui32>",
        )
    )


def measure(code, result, jacobian=0, data="4xf64", vector="", before="%1"):
    operands = f"tensor<2xui32>, tensor<{data}>" + (f", tensor<{vector}>" if vector else "")
    results = f"tensor<2xui32>, tensor<{result}>"
    lines = [constant("d", "1.0" if not data.startswith("0") else "", data)]
    if vector:
        lines.append(constant("v", "1.0" if not vector.startswith("0") else "", vector))
    name = "%m:2"
    return "\n".join(
        (
            *lines,
            f'{name} = "quantum.measure"({before}, %d{", %v" if vector else ""}) {{code = array<i64: '  # noqa: E501
            f"{', '.join(map(str, code))}>, jacobian = {jacobian} : i64}} : ({operands}) -> ({results})",  # noqa: E501
        )
    )


def derivative(sizes, result, order=1, ends="2", squares="-1", basis="0x8xf64", directions="1x0xf64",  # noqa: E501
               keep=0, rules="8xi32", steps=-1):  # fmt: skip
    empty = "" if basis.startswith("0") else "1.0"
    return "\n".join(
        (
            constant("d", "1.0", "4xf64"),
            constant("q", "0.3", "8xf64"),
            constant("r", "0", rules),
            constant("b", empty, basis),
            constant("s", steps, "i32"),
            constant("t", "" if "x0x" in directions or directions[0] == "0" else "0.0", directions),
            '%m:3 = "quantum.derivative"(%1, %d, %q, %r, %b, %s, %t) {adjoint = 0 : i64, amounts = '
            "array<f64: 1.5, -1.5>, code = array<i64: 0, 3, 0>, coefficients = array<f64: 0.5, -0.5>, "  # noqa: E501
            f"ends = array<i64: {ends}>, keep = {keep} : i64, order = {order} : i64, sizes = "
            f"array<i64: {sizes}>, squares = array<i64: {squares}>}} : (tensor<2xui32>, tensor<4xf64>, "  # noqa: E501
            f"tensor<8xf64>, tensor<{rules}>, tensor<{basis}>, tensor<i32>, tensor<{directions}>) -> "  # noqa: E501
            f"(tensor<2xui32>, tensor<i32>, tensor<{result}>)",
        )
    )


RX = [0, 0, 1, 1, 0, 0, 0]
EXPVAL = [0, 3, 0]
END = '"quantum.end"(%0) : (tensor<2xui32>) -> ()'
Z = measure(EXPVAL, "f64")
DIRECTION = (
    constant("i", "0.0", "4xf64") + "\n" + constant("q", "1.0", "4x2xf64") + "\n"
    + constant("k", 2**30, "i32")
    + '\n%m = "quantum.direction"(%1, %i, %q, %k) {bits = 24 : i64} : (tensor<2xui32>, '
    "tensor<4xf64>, tensor<4x2xf64>, tensor<i32>) -> tensor<1xf64>"
)  # fmt: skip
COUNTED = gates(RX, offset=2**30 + 2**29)

CASES = {
    "a slot that wraps": [begin(), gates([*RX, 0, 0, 1, 1, 0, HUGE, 0], count=8), Z],
    "a computed wire that wraps": [begin(), gates([0, 0, 1, 1, 0, 0, -HUGE], count=8), Z],
    "offsets beyond 32 bits": [begin(), gates(RX, offset=2**31 - 2, count=8), Z],
    "an offset that is none": [begin(), gates(RX, offset=-7), Z],
    "amplitudes of several iterations": [
        begin(qubits=1),
        gates([0, 0, 4, 1, 0, 0, 1, 2, 3, 0], "StatePrep", offset=-2, count=2),
        measure(EXPVAL, "1x4xf64", jacobian=1),
    ],
    "a gate of another length": [begin(), gates([0, 0, 0, 2, 0, 0, 1], "SingleExcitationX"), Z],
    "a rotation of no wires": [begin(), gates([0, 0, 1, 0, 0, 0], "MultiRZ"), Z],
    "a matrix of no wires": [begin(), gates([0, 0, 2, 0, 0, 0, 1], "QubitUnitary"), Z],
    "a word of another gate": [begin(), gates(RX, "RX:XYZ"), Z],
    "a negative count of wires": [begin(), gates([0, 0, 1, -1, 0, 0]), Z],
    "a Jacobian of no rows": [begin(), gates(RX), measure(EXPVAL, "0x1x8xf64", jacobian=1)],
    "a Jacobian of the plugin of no rows": [
        begin(engine=0, record=2), gates(RX), measure(EXPVAL, "0x1x8xf64", jacobian=1),
    ],
    "a Jacobian of no columns": [begin(), gates(RX), measure(EXPVAL, "1x0xf64", jacobian=1)],
    "a vector of no numbers": [
        begin(), gates(RX), measure(EXPVAL, "8xf64", jacobian=2, vector="0xf64"),
    ],
    "rows that are none": [begin(rows=3), gates(RX, params="0x8xf64"), measure(EXPVAL, "3xf64")],
    "results of no rows": [begin(rows=3), gates(RX), measure(EXPVAL, "2xf64")],
    "more rows than memory": [begin(rows=2**62), gates(RX), measure(EXPVAL, "0xf64")],
    "qubits that wrap": [begin(qubits=2**32), Z.replace("%1", "%0")],
    "shots that wrap": [begin(shots=2**62, qubits=1, tree=5), Z.replace("%1", "%0")],
    "bases beyond the data": [
        begin(shots=5, record=0), gates(RX), measure([6, 1, 0, 5, 1], "5x2x1xui8", data="5xf64"),
    ],
    "fewer bases than shots": [
        begin(shots=5, record=0), gates(RX), measure([6, 1, 0, 1, 0], "5x2x1xui8", data="5xf64"),
    ],
    "a negative count of bases": [
        begin(shots=5, record=0), gates(RX), measure([6, 1, 0, -1, 4], "5x2x1xui8", data="5xf64"),
    ],
    "groups that wrap": [
        begin(shots=2, record=0), gates(RX),
        measure([5, 1, 0, 0, 5, 2**62, 2**62, 2**62, 2**62, 2], "5x2xf64"),
    ],
    "a wire below zero": [begin(), gates(RX), measure([0, 3, -1], "f64")],
    "data beyond all": [begin(), gates(RX), measure([0, 5, 1, 0, 2**39], "f64")],
    "a sum of more than there is": [begin(), gates(RX), measure([0, 7, 2**40, 0, 3, 0], "f64")],
    "an order without end": [begin(), gates(RX), derivative("1", "1x8xf64", order=2**62)],
    "an order below zero": [begin(), gates(RX), derivative("1", "1x8xf64", order=-1)],
    "directions without end": [
        begin(), gates(RX), derivative("1", "0xf64", directions="0x1099511627776xf64"),
    ],
    "sizes that wrap": [begin(), gates(RX), derivative(str(2**62), "1x8xf64", keep=1)],
    "sizes below zero": [begin(), gates(RX), derivative("-1", "1x8xf64")],
    "rules of another number": [begin(), gates(RX), derivative("1", "1x8xf64", rules="3xi32")],
    "ends beyond the terms": [begin(), gates(RX), derivative("1", "1x8xf64", ends="9")],
    "squares of themselves": [begin(), gates(RX), derivative("1", "1x8xf64", squares="7")],
    "steps beyond all": [begin(), gates(RX), derivative("1", "1x8xf64", steps=9)],
    # What is kept of parameters that are numbered in no order is right; a measurement on no wire
    # ends it.
    "parameters in no order": [
        begin(), COUNTED, gates(RX, offset=2**30, before="%1", after="%5").replace("%p", "%p5")
        .replace("%o", "%o5").replace("%w", "%w5").replace("%n", "%n5"),
        derivative("1", "1x1xf64", order=0, keep=1).replace("(%1,", "(%5,").replace("1x0xf64", "1x0xf64"),  # noqa: E501
        measure([0, 3, 9], "f64", before="%5").replace("%m:2", "%k:2").replace("%d", "%d7"),
    ],
    "fewer perturbations than rows": [begin(), gates(RX), DIRECTION],
    "a derivative of what is not kept": [
        begin(record=0, tree=1),
        '%z = stablehlo.constant dense<0> : tensor<i32> %5:2 = "quantum.mid_measure"(%0, %z) {postselect '  # noqa: E501
        '= -1 : i64, reset = 0 : i64, site = "x.py:3"} : (tensor<2xui32>, tensor<i32>) -> '
        "(tensor<2xui32>, tensor<i1>)",
        gates(RX, before="%5#0"), measure(EXPVAL, "8xf64", jacobian=2, vector="1xf64"),
    ],
    "a handle by number": [
        constant("0", "[0, 1]", "2xui32"), gates(RX), Z,
    ],
    "a handle that was added to": [
        begin().replace("%0", "%h"), constant("c", "[0, 1]", "2xui32"),
        "%0 = stablehlo.add %h, %c : tensor<2xui32>", gates(RX), Z,
    ],
    "the end comes twice": [begin(), gates(RX), Z, END, END],
    "a measurement after the end": [begin(), gates(RX), END, Z],
}  # fmt: skip


def craft(tmp_path, honest, lines):
    module = "\n".join(
        (
            "module @jit_gates attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {",  # noqa: E501
            "func.func public @main(%arg0: tensor<2xf64>) -> (tensor<f64>) {",
            *lines,
            constant("result", "0.0", "f64"),
            "return %result : tensor<f64>",
            "}}",
        )
    )
    path = tmp_path / "crafted.bellhop"
    repack(path, honest | {"0.mlir": module.encode()})
    return path


@pytest.mark.large
@pytest.mark.parametrize("lines", CASES.values(), ids=CASES)
def test_what_would_do_harm_is_an_error(tmp_path, honest, lines):
    path = craft(tmp_path, honest, lines)
    with pytest.raises((bellhop.CompileError, bellhop.CircuitError)):
        jax.block_until_ready(bellhop.load(path)(X))
    assert bellhop_runtime.live_sessions() == 0


def test_circuits_left_open_end_with_their_run(tmp_path, honest):
    text = re.sub(r'\n *"quantum.end".*\n', "\n", honest["0.mlir"].decode())
    path = tmp_path / "crafted.bellhop"
    repack(path, honest | {"0.mlir": text.encode()})
    f = bellhop.load(path)
    for _ in range(3):
        f(X)
        assert bellhop_runtime.live_sessions() == 0
