"""draw: boxes for what is outside the host's own computation, and what flows between."""

import re
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.needs import GRAPHVIZ

import bellhop
from bellhop.drawing import draw as draw_module
from bellhop.drawing.graph import BoxKind

PLAN = "engine, derivatives by adjoint, double precision"


@bellhop.pure_callback
def lookup(x) -> float:
    return x


@bellhop.accelerate
def layer(x):
    return jnp.sin(x)


@qml.qnode(qml.device("lightning.qubit", wires=2))
def circuit(angle):
    qml.RX(angle, wires=0)
    return qml.expval(qml.Z(0))


def names(graph, kind):
    return [node.lines[0] for node in graph.nodes() if node.kind == kind]


def flows(graph):
    """Edges between boxes by their first lines; host boxes are 'host'."""
    name = {node.index: node.text[0] for node in graph.nodes()}
    return {(name[source], name[target]): types for (source, target), types in graph.edges.items()}


def test_every_kind_of_box_and_what_flows():
    @bellhop.qjit
    def program(x, weights):
        bellhop.debug.print("x = {}", x)
        return circuit(layer(lookup(2 * x)) + weights["bias"])

    graph = bellhop.draw(program)(1.0, {"bias": np.float64(0.5)}).graph
    assert names(graph, BoxKind.CALLBACK) == ["print", "lookup"]
    assert names(graph, BoxKind.REGION) == ["layer"]
    assert names(graph, BoxKind.CIRCUIT) == ["circuit"]
    assert flows(graph) == {
        ("x", "print"): ["f64[]"],
        ("x", "host"): ["f64[]"],
        ("host", "lookup"): ["f64[]"],
        ("lookup", "layer"): ["f64[]"],
        ("layer", "host"): ["f64[]"],
        ("weights", "host"): ["f64[]"],
        ("host", "circuit"): ["f64[]"],
        ("circuit", "result"): ["f64[]"],
    }
    circuit_box = next(node for node in graph.nodes() if node.kind == BoxKind.CIRCUIT)
    assert circuit_box.lines == ["circuit", "lightning.qubit, 2 qubits", PLAN]


def test_operations_on_the_host_are_one_box_until_something_comes_between():
    def program(x):
        y = jnp.cos(jnp.sin(x)) + 1
        return jnp.exp(lookup(y)) * y

    graph = bellhop.draw(program)(1.0).graph
    boxes = [node.lines for node in graph.nodes() if node.kind == BoxKind.HOST]
    assert boxes == [["sin", "cos", "add"], ["exp", "mul"]]


def test_nothing_is_called():
    def fail(x):
        raise AssertionError("called")

    bellhop.draw(lambda x: bellhop.pure_callback(fail, float)(x))(1.0)


def test_loops_and_conditionals_are_groups():
    def program(x, n):
        x = jax.lax.fori_loop(0, 3, lambda i, x: lookup(x), x)
        x = jax.lax.while_loop(lambda x: x < n, lambda x: layer(x) + n, x)
        return jax.lax.cond(x > 1, circuit, lambda x: 2 * x, x)

    graph = bellhop.draw(program)(1.0, 2.0).graph
    titles = [group.title for group in graph.top.groups]
    assert titles == ["3 times", "while", "if"]
    loop, while_loop, conditional = graph.top.groups
    assert [node.kind for node in loop.nodes] == [
        BoxKind.CARRIED,
        BoxKind.HOST,
        BoxKind.CALLBACK,
    ]  # the host counts
    assert [node.kind for node in while_loop.nodes][:1] == [BoxKind.CARRIED]
    # The value goes round: out of the carried ones, and back.
    carried, _, call = loop.nodes
    assert (carried.index, call.index) in graph.edges
    assert (call.index, carried.index) in graph.edges
    otherwise, then = conditional.groups
    assert [group.title for group in (otherwise, then)] == ["otherwise", "then"]
    assert [node.kind for node in then.nodes] == [BoxKind.CIRCUIT]
    [result] = [node for node in graph.top.nodes if node.text == ["result"]]
    into_result = {source for source, target in graph.edges if target == result.index}
    assert {then.nodes[0].index, otherwise.nodes[0].index} <= into_result


def test_loops_of_the_host_alone_are_no_group():
    graph = bellhop.draw(lambda x: lookup(jax.lax.fori_loop(0, 9, lambda i, x: x * x, x)))(
        1.0
    ).graph
    assert graph.top.groups == []


def test_derivatives_are_drawn_as_they_will_run():
    @lookup.fwd
    def _(x):
        return lookup(x), x

    @lookup.bwd
    def _(x, cotangent):
        return cotangent * bellhop.pure_callback(np.cos, float)(x)

    graph = bellhop.draw(bellhop.qjit(bellhop.grad(lambda x: circuit(lookup(x)))))(0.3).graph
    assert names(graph, BoxKind.CALLBACK) == ["lookup", "cos"]


def circuit_boxes(function, *args, **options):
    """What stands in the boxes of circuits behind name and device, each plan by its executor."""
    graph = bellhop.draw(bellhop.qjit(function, **options))(*args).graph
    return [
        [re.sub(r"(engine|plugin).*precision", r"\1", line) for line in node.lines[2:]]
        for node in graph.nodes()
        if node.kind == BoxKind.CIRCUIT
    ]


def on_lightning(measure, wires=3):
    def turned(x):
        qml.RX(x, wires=0)
        return measure()

    return qml.QNode(turned, qml.device("lightning.qubit", wires=wires))


def test_circuits_say_what_runs_them_and_what_they_compute():
    first = ["with derivatives, engine"]
    assert circuit_boxes(jax.grad(circuit), 0.3) == [first]
    back = ["derivative along a cotangent, engine"]
    assert circuit_boxes(jax.grad(jax.grad(circuit)), 0.3) == [first, back]
    second = ["with derivatives of order 2, engine"]
    variance = on_lightning(lambda: qml.var(qml.Z(0)))
    assert circuit_boxes(jax.grad(jax.grad(variance)), 0.3) == [second]
    rows = jax.vmap(jax.grad(circuit))
    of_rows = ["with derivatives, plugin", "5 times"]
    assert circuit_boxes(rows, jnp.ones(5), engine="plugin") == [of_rows]
    probs = on_lightning(qml.probs)
    forward = ["engine"]
    assert circuit_boxes(jax.grad(lambda x: probs(x)[0]), 0.3) == [forward, back]
    along = ["derivative along a tangent, engine"]
    assert circuit_boxes(lambda x: jax.jvp(probs, (x,), (1.0,)), 0.3) == [forward, along]
    shadow = qml.set_shots(on_lightning(lambda: qml.classical_shadow(wires=[0, 1])), 10)
    assert circuit_boxes(shadow, 0.3) == [["plugin"]]


def test_results_and_arguments_are_named():
    def program(x, *rest, scale):
        return {"a": lookup(x), "b": (rest[0] * scale, x)}

    drawing = bellhop.draw(program)(1.0, 2.0, scale=3.0)
    assert {"x", "rest", "scale", "result['a']", "result['b']"} <= {
        node.text[0] for node in drawing.graph.nodes()
    }


def test_mermaid_text():
    assert bellhop.draw(lambda x: layer(lookup(x)))(1.0).mermaid == (
        "flowchart TD\n"
        '  n0(["x"])\n'
        '  n1>"lookup<br>pure_callback"]:::callback\n'
        '  n2{{"layer<br>cpu:0<br>8 B in, 8 B out"}}:::region\n'
        '  n3(["result"])\n'
        '  n0 -->|"f64[]"| n1\n'
        '  n1 -->|"f64[]"| n2\n'
        '  n2 -->|"f64[]"| n3\n'
        "  classDef callback fill:#fff3cd,stroke:#b58900,color:#000\n"
        "  classDef region fill:#dcfce7,stroke:#15803d,color:#000\n"
    )


def test_a_region_says_what_crosses():
    def program(x, n):
        region = bellhop.accelerate(lambda x, y, n, c: (x @ y * n * c, jnp.zeros(0)))
        return region(x, x, n, 2.0)

    boxes = bellhop.draw(program)(jnp.ones((20, 20), jnp.float32), 3).graph.nodes()
    [text] = [node.text for node in boxes if node.kind is BoxKind.REGION]
    # An operand that is handed over twice crosses once, and a constant does not.
    assert text[1:] == ["cpu:0", "1.61 kB in, 1.6 kB out"]


def test_what_goes_from_one_device_to_another_says_so():
    here, there = (bellhop.accelerate(jnp.sin, dev=f"cpu:{n}") for n in range(2))
    program = lambda x: (here(there(x)), there(there(x)))
    asked = bellhop.qjit(program, out_shardings=("cpu:1", None))
    graph = bellhop.draw(asked)(jnp.ones(1000, jnp.float32)).graph
    assert [node.lines for node in graph.nodes() if node.kind is BoxKind.RESULT] == [
        ["result[0]", "cpu:1"],
        ["result[1]"],
    ]
    flows = sorted(what for between in graph.edges.values() for what in between)
    crossing = "f32[1000], 4 kB from cpu:{} to cpu:{}"
    assert flows == sorted(["f32[1000]"] * 4 + [crossing.format(0, 1), crossing.format(1, 0)])


def test_lambda_in_mermaid_is_escaped():
    text = bellhop.draw(lambda x: bellhop.pure_callback(lambda v: v, float)(x))(1.0).mermaid
    assert '"#lt;lambda>' in text


@pytest.fixture
def drawing():
    return bellhop.draw(lambda x: layer(lookup(x)))(1.0)


def test_files_of_text(drawing, tmp_path):
    drawing.save(tmp_path / "program.mmd")
    drawing.save(tmp_path / "program.dot")
    assert (tmp_path / "program.mmd").read_text() == drawing.mermaid
    assert (tmp_path / "program.dot").read_text().startswith("digraph program {")
    with pytest.raises(ValueError, match="program.jpeg"):
        drawing.save(tmp_path / "program.jpeg")


@GRAPHVIZ.mark
def test_graphviz_takes_the_text(drawing):
    run = subprocess.run(["dot", "-Tsvg"], input=drawing.dot, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "lookup" in run.stdout


def test_notebooks_get_mermaid_where_there_is_no_graphviz(drawing, monkeypatch, tmp_path):
    monkeypatch.setattr(draw_module.shutil, "which", lambda _: None)
    bundle = drawing._repr_mimebundle_()
    assert bundle["text/plain"] == str(drawing)
    assert bundle["text/markdown"].startswith("```mermaid\nflowchart TD\n")
    assert "image/svg+xml" not in bundle
    with pytest.raises(RuntimeError, match=r"install Graphviz .*\(pip install graphviz\)"):
        drawing.save(tmp_path / "program.svg")


def test_only_functions_are_drawn():
    with pytest.raises(TypeError, match="draw takes a function, got 3"):
        bellhop.draw(3)


def test_a_drawing_without_arguments_says_how_to_call_it():
    def program(x):
        return 2 * x

    shown = str(bellhop.draw(program))
    assert shown == "<draw 'program': to draw, call it with the arguments of 'program'>"
    assert "draw_graph 'program'" in repr(bellhop.draw_graph(program))


def test_static_arguments_are_no_arrows():
    @bellhop.qjit(static_argnums=1, static_argnames="scale")
    def f(x, n, y, *, scale):
        for _ in range(n):
            x = bellhop.pure_callback(np.sin, float)(x)
        return scale * x + y["a"]

    drawn = bellhop.draw(f)(0.3, 2, {"a": 1.0}, scale=2.0).mermaid
    assert drawn.count("pure_callback") == 2
    assert '(["x"])' in drawn
    assert '(["y"])' in drawn
    assert '(["n"])' not in drawn


def test_arrows_of_further_arguments_beside_static_ones():
    @bellhop.qjit(static_argnames="n")
    def f(x, *rest, n, zoom):
        of_rest = bellhop.pure_callback(np.sin, float)(rest[0])
        return x + of_rest + n * bellhop.pure_callback(np.cos, float)(zoom)

    drawn = bellhop.draw(f)(0.1, 0.2, n=2, zoom=0.3).mermaid
    for argument, source, callback, target in (
        ("argument 1", "n1", "sin", "n3"),
        ("zoom", "n2", "cos", "n5"),
    ):
        assert f'{source}(["{argument}"])' in drawn
        assert f'{target}>"{callback}<br>' in drawn
        assert f'{source} -->|"f64[]"| {target}' in drawn
