"""What programs of Catalyst's mean here: a test for each row of the table in the guide."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.integration.pennylane.catalyst_circuits import SECTIONS as CIRCUITS
from tests.integration.pennylane.catalyst_programs import SECTIONS as PROGRAMS
from tests.integration.pennylane.catalyst_row import Row, describe_result

import bellhop

PAGE = Path(__file__).parents[3] / "doc" / "how-to" / "differences-from-catalyst.md"
SECTIONS = PROGRAMS | CIRCUITS
ROWS: dict[str, Callable[[], None]] = {}


def row(name: str) -> Callable[[Callable[[], None]], None]:
    """Register the test of a row."""
    return lambda test: ROWS.__setitem__(name, test)


def node(body: Any, shots: Any = None, device: Any = None, **options: Any) -> Any:
    device = device or qml.device("lightning.qubit", wires=1)
    return qml.set_shots(qml.QNode(body, device, **options), shots)


def coin() -> Any:
    qml.H(0)
    m = bellhop.measure(0)
    return qml.expval(qml.Z(0)), qml.expval(m)


def tossed() -> Any:
    qml.H(0)
    return qml.sample(wires=0)


@row("mid-circuit measurements, without shots")
def _() -> None:
    np.testing.assert_allclose(bellhop.qjit(node(coin))(), [0, 0.5], atol=1e-12)
    z, m = bellhop.qjit(node(coin, mcm_method="single-branch-statistics"), seed=1)()
    assert (round(float(z)), float(m)) in [(1, 0.0), (-1, 1.0)]


@row("`qml.state` after mid-circuit measurements")
def _() -> None:
    def body(measured: Callable[[], Any]) -> Any:
        return lambda: (qml.H(0), bellhop.measure(0), measured())[-1]

    with pytest.raises(bellhop.CompileError, match="mixture of states"):
        bellhop.qjit(node(body(qml.state)))()
    single = node(body(qml.state), mcm_method="single-branch-statistics")
    assert set(np.abs(bellhop.qjit(single)())) == {0.0, 1.0}
    mixture = bellhop.qjit(node(body(lambda: qml.density_matrix(0))))()
    np.testing.assert_allclose(mixture, np.eye(2) / 2, atol=1e-12)


def postselected() -> Any:
    qml.H(0)
    bellhop.measure(0, postselect=1)
    return qml.sample(wires=0)


def impossible() -> Any:
    bellhop.measure(0, postselect=1)
    return qml.expval(qml.Z(0))


@row("postselection with shots")
def _() -> None:
    assert (bellhop.qjit(node(postselected, 20))() == 1).all()
    samples = bellhop.qjit(node(postselected, 20, postselect_mode="hw-like"), seed=1)()
    assert set(np.unique(samples)) == {1, -(2**31)}


@row("a postselection with probability zero")
def _() -> None:
    for shots in (None, 5):
        assert np.isnan(bellhop.qjit(node(impossible, shots))())


@row("`mcm_method` with shots")
def _() -> None:
    methods = ["one-shot", "tree-traversal", "deferred", "device"]
    results = [bellhop.qjit(node(coin, 50, mcm_method=m), seed=3)() for m in methods]
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    assert results[0][1] not in (0, 1)
    single = bellhop.qjit(node(coin, 50, mcm_method="single-branch-statistics"), seed=3)()
    assert single[1] in (0, 1)


@row("`expval` of an outcome without shots")
def _() -> None:
    assert bellhop.qjit(node(coin))()[1] == pytest.approx(0.5)


@row("seeds")
def _() -> None:
    program = bellhop.qjit(node(tossed, 64), seed=2**64 - 1)
    np.testing.assert_array_equal(program(), program())
    with pytest.raises(ValueError, match="seed must be an integer from 0 to"):
        bellhop.qjit(node(tossed, 64), seed=2**64)


@row("seeds under `jax.jit(f)`")
def _() -> None:
    for seed in (1, None):
        program = jax.jit(bellhop.qjit(node(tossed, 64), seed=seed))
        assert not np.array_equal(program(), program())


@row("device seeds")
def _() -> None:
    device = lambda: qml.device("lightning.qubit", wires=1, seed=5)
    one, other = (bellhop.qjit(node(tossed, 64, device())) for _ in range(2))
    first, second = one(), one()
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal([first, second], [other(), other()])


@row("`f(2)` after `f(2.0)`")
def _() -> None:
    traces = []
    f = bellhop.qjit(lambda x: (traces.append(1), 2 * x)[1])
    assert f(2.0).dtype == float
    assert f(2).dtype == int
    assert f(np.float32(2)).dtype == np.float32
    assert len(traces) == 3


@row("results computed from Python numbers")
def _() -> None:
    result = bellhop.qjit(lambda x: 2 * x)(1.5)
    assert (result + jnp.ones(2, jnp.float32)).dtype == jnp.float32
    assert (jnp.float64(result) + jnp.ones(2, jnp.float32)).dtype == jnp.float64


@row("`sample`, `counts` and `probs` of observables")
def _() -> None:
    body = lambda: (qml.sample(qml.Z(0)), qml.counts(qml.Z(0)), qml.probs(op=qml.Z(0)))
    samples, (values, counts), probs = bellhop.qjit(node(body, 4))()
    np.testing.assert_array_equal(probs, [1, 0])
    np.testing.assert_array_equal(samples, np.ones(4))
    np.testing.assert_array_equal([values, counts], [[-1, 1], [0, 4]])


@row("`qml.pauli_measure`")
def _() -> None:
    def body(x: Any) -> Any:
        qml.RX(x, 0)
        return qml.expval(qml.pauli_measure("Z", wires=[0]))

    assert bellhop.qjit(node(body))(0.4) == pytest.approx(np.sin(0.2) ** 2)


@row("`qml.allocate`, `qml.deallocate`")
def _() -> None:
    def body(x: Any) -> Any:
        with qml.allocate(1) as (wire,):
            qml.RX(x, wire)
            qml.CNOT([wire, 0])
            qml.RX(-x, wire)
        return qml.expval(qml.Z(0))

    two = qml.device("lightning.qubit", wires=2)
    assert bellhop.qjit(node(body, device=two))(0.4) == pytest.approx(np.cos(0.4))


@row("`qml.classical_shadow`, `qml.shadow_expval`")
def _() -> None:
    body = lambda: (qml.classical_shadow(wires=[0], seed=1), qml.shadow_expval(qml.Z(0), seed=1))
    (bits, recipes), mean = bellhop.qjit(node(body, 90))()
    assert bits.shape == recipes.shape == (90, 1)
    # Every third shot or so is one of Z, and gives three.
    assert mean == pytest.approx(3 * np.mean(recipes == 2))


@row("noise: `default.mixed`, channels, `qml.add_noise`")
def _() -> None:
    def body(p: Any) -> Any:
        qml.BitFlip(p, wires=0)
        return qml.expval(qml.Z(0))

    program = bellhop.value_and_grad(node(body, device=qml.device("default.mixed", wires=1)))
    np.testing.assert_allclose(bellhop.qjit(program)(0.2), (0.6, -2))


@row("shot vectors, `qml.set_shots(circuit, (10, 20))`")
def _() -> None:
    results = bellhop.qjit(node(lambda: qml.expval(qml.Z(0)), (10, 20)))()
    np.testing.assert_array_equal(results, [1, 1])


@row("a device without `wires`, and `probs()`")
def _() -> None:
    body = lambda: (qml.H(1), qml.probs())[1]
    for wires, expected in ((None, [0.5, 0.5]), (2, [0.5, 0.5, 0, 0])):
        program = bellhop.qjit(node(body, device=qml.device("lightning.qubit", wires=wires)))
        np.testing.assert_allclose(program(), expected)


@row("wires with other labels than 0, 1, ...")
def _() -> None:
    body = lambda: (qml.X("b"), qml.probs())[1]
    program = bellhop.qjit(node(body, device=qml.device("lightning.qubit", wires=["a", "b"])))
    np.testing.assert_allclose(program(), [0, 1, 0, 0])


def rotated(x: Any) -> Any:
    qml.RX(x, 0)
    return qml.expval(qml.Z(0))


@row("an array as an angle")
def _() -> None:
    angles = jnp.array([0.1, 0.4])
    np.testing.assert_allclose(bellhop.qjit(node(rotated))(angles), np.cos(angles))


@row("a QNode that returns nothing")
def _() -> None:
    with pytest.raises(bellhop.CompileError, match="the quantum function returned no value"):
        bellhop.qjit(node(lambda: None))()


@row("a QNode that calls another")
def _() -> None:
    inner = node(rotated)
    program = bellhop.qjit(node(lambda x: rotated(inner(x))))
    assert program(0.4) == pytest.approx(np.cos(np.cos(0.4)))


@row("`qml.Snapshot`")
def _() -> None:
    def body() -> Any:
        qml.X(0)
        qml.Snapshot("here")
        return qml.expval(qml.Z(0))

    assert bellhop.qjit(node(body))() == -1
    with pytest.warns(UserWarning, match="a tape will be created for each snapshot"):
        states = bellhop.qjit(lambda: qml.snapshots(node(body))())()
    np.testing.assert_allclose(states["here"], [0, 1])


@row("arguments of callbacks")
def _() -> None:
    seen: list[Any] = []

    @bellhop.qjit
    def program(x: Any) -> Any:
        bellhop.debug.callback(seen.append)(x)
        return x

    program(1.0)
    assert type(seen[0]) is np.ndarray


@row("an `int` from a callback that declares a `float`")
def _() -> None:
    assert bellhop.qjit(bellhop.pure_callback(lambda x: 3, float))(1.0) == 3.0


@row("a value that a `debug.callback` returns")
def _() -> None:
    program = bellhop.qjit(lambda x: (bellhop.debug.callback(lambda y: 5)(x), x)[1])
    assert program(1.0) == 1


@row("`print` with more values than fields")
def _() -> None:
    with pytest.raises(ValueError, match="fields for 0 positional values"):
        bellhop.qjit(lambda x: bellhop.debug.print("x", x))(1.0)


@row("a `debug_assert` that fails")
def _() -> None:
    with pytest.raises(RuntimeError) as caught:
        bellhop.qjit(lambda x: (bellhop.debug_assert(x > 1, "too small"), x)[1])(0.0)
    assert str(caught.value) == "too small"


@row("`for_loop` with a step of 0")
def _() -> None:
    with pytest.raises(ValueError, match="the step must not be zero"):
        bellhop.qjit(lambda: bellhop.for_loop(0, 3, 0)(lambda i, x: x)(1))()
    assert bellhop.qjit(lambda n: bellhop.for_loop(0, 3, n)(lambda i, x: x + 1)(1))(0) == 1


@row("an array of dynamic size, or a dynamic number of a device's wires")
def _() -> None:
    with pytest.raises(TypeError):
        bellhop.qjit(lambda n: jnp.ones([n]))(3)
    assert bellhop.qjit(lambda n: jnp.ones([n]), static_argnums=0)(3).shape == (3,)
    with pytest.raises(bellhop.CompileError, match="the number or a label of the device's wires"):
        bellhop.qjit(lambda n: node(impossible, device=qml.device("lightning.qubit", wires=n))())(2)


@row("`grad` of `grad`")
def _() -> None:
    second = bellhop.qjit(bellhop.grad(bellhop.grad(node(rotated))))(0.4)
    assert second == pytest.approx(-np.cos(0.4))


@row('`diff_method="finite-diff"`, `"spsa"`, `"hadamard"` and `shifts` for `"parameter-shift"`')
def _() -> None:
    device = qml.device("lightning.qubit", wires=2)
    for method, kwargs in (
        ("finite-diff", {}),
        ("spsa", {}),
        ("hadamard", {"aux_wire": 1}),
        ("parameter-shift", {"shifts": [(0.3,)]}),
    ):
        differentiated = node(rotated, device=device, diff_method=method, gradient_kwargs=kwargs)
        program = bellhop.qjit(bellhop.grad(differentiated))
        assert program(0.4) == pytest.approx(-np.sin(0.4), abs=1e-5)


def returns_in_a_loop(x: Any) -> Any:
    assert x > 0
    for i in range(10):
        if i > x:
            return 1.0 if x > 2 else 2.0
    return 3.0


@row("`break`, `assert`, `a if x else b` and `return` in a loop, under autograph")
def _() -> None:
    program = bellhop.qjit(returns_in_a_loop, autograph=True)
    assert [float(program(x)) for x in (1.5, 2.5, 20.5)] == [2, 1, 3]


@row(
    "passes to Pauli product rotations, `disentangle_cnot`, `parity_synth` and other passes that "
    "[Names](from-catalyst.md#names) does not list"
)
def _() -> None:
    with pytest.raises(AttributeError, match=r"'disentangle_cnot' \(of Catalyst\)"):
        bellhop.passes.disentangle_cnot  # noqa: B018


@row("`gridsynth(ppr_basis=True)`")
def _() -> None:
    with pytest.raises(bellhop.CompileError, match="ppr_basis=True is not supported"):
        bellhop.qjit(bellhop.passes.gridsynth(node(rotated), ppr_basis=True))(0.3)


@row("`default.qubit`")
def _() -> None:
    exact = bellhop.qjit(node(coin, device=qml.device("default.qubit", wires=1)))()
    np.testing.assert_allclose(exact, [0, 0.5], atol=1e-12)


@pytest.mark.parametrize("name", ROWS)
def test_row(name: str) -> None:
    ROWS[name]()


def test_every_row_is_here() -> None:
    section = PAGE.read_text().split("## Differences of meaning")[1].split("\n## ")[0]
    in_page = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)[1:]
    assert in_page == list(ROWS)


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("own_directory")
@pytest.mark.parametrize(
    ("section", "entry"),
    [(section, entry) for section, rows in SECTIONS.items() for entry in rows],
    ids=lambda value: value.description if isinstance(value, Row) else value,
)
def test_program(section: str, entry: Row) -> None:
    table = PAGE.read_text().split(f"### {section}\n")[1].split("\n#")[0]
    line = f"| {entry.description} | {entry.catalyst} | {describe_result(entry.run)} |"
    assert line in table.splitlines()


def test_every_program_is_here() -> None:
    by_section = re.split(r"^### (.*)$", PAGE.read_text(), flags=re.MULTILINE)
    in_page = {
        section: re.findall(r"^\| (.*?) \|", text, re.MULTILINE)[1:]
        for section, text in zip(by_section[1::2], by_section[2::2], strict=True)
    }
    assert in_page == {name: [row.description for row in rows] for name, rows in SECTIONS.items()}
