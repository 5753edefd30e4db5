"""Errors of mistakes that new users make: each names what was wrong and what to write instead."""

import collections
import re
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

HERE = re.escape(__file__)
VECTOR = np.ones(3)


def quantum_function(x):
    qml.RX(x, 0)
    return qml.expval(qml.Z(0))


@pytest.mark.parametrize(
    "call",
    [
        lambda: bellhop.qjit(quantum_function)(0.3),
        lambda: bellhop.qjit(bellhop.grad(quantum_function))(0.3),
        lambda: bellhop.vmap(quantum_function)(VECTOR),
        lambda: bellhop.accelerate(quantum_function)(0.3),
    ],
    ids=["qjit", "grad", "vmap", "accelerate"],
)
def test_a_quantum_function_without_a_qnode(call):
    with pytest.raises(
        bellhop.CompileError,
        match=rf"'quantum_function' \({HERE}:\d+\): the result is the measurement expval\(Z\(0\)\)"
        r", expected arrays\. .* decorator @qml\.qnode\(device\) above it",
    ):
        call()


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (lambda x: np.linalg.norm(x), r"jnp\.linalg\.norm.*help\(bellhop\.pure_callback\)"),
        (lambda x: float(x[0]), r"x\.astype\(float\) in place of float\(x\)"),
        (lambda x: x[0].item(), r"in place of x\.item\(\)"),
        (lambda x: list(range(x[0].astype(int))), r"bellhop\.for_loop in place of range"),
        (
            lambda x: list(bellhop.progress(range(x[0].astype(int)))),
            r"bellhop\.for_loop in place of range, or qjit\(autograph=True\)",
        ),
    ],
    ids=["norm", "float", "item", "range", "progress"],
)
def test_values_that_only_the_program_knows(function, advice):
    with pytest.raises(TypeError) as raised:
        bellhop.qjit(function)(VECTOR)
    (note,) = (note for note in raised.value.__notes__ if note.startswith("bellhop: "))
    assert re.search(advice, note)
    assert f"at {__file__}:" in note
    assert "doc/guide" not in note


def test_a_result_of_another_shape_offers_a_type():
    two = bellhop.pure_callback(lambda: np.array([1.0, 2.0]), float)
    with pytest.raises(
        TypeError,
        match=r"To declare an array: result_type=jax\.ShapeDtypeStruct\(\(2,\), float\), or "
        r"result_type=bellhop\.infer",
    ):
        two()


def test_a_platform_that_is_not_installed():
    present = {device.platform for device in jax.devices()}
    missing = next(platform for platform in ("tpu", "cuda") if platform not in present)
    extra = {"tpu": "tpu", "cuda": "cuda12"}[missing]
    expected = rf'Install JAX for it: pip install "jax\[{extra}\]"'
    with pytest.raises(ValueError, match=expected) as raised:
        bellhop.qjit(lambda x: bellhop.accelerate(jnp.sin, dev=missing)(x))(1.0)
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    ("call", "option"),
    [
        (lambda: bellhop.qjit(jnp.sin, static_argnum=0), "static_argnums"),
        (lambda: bellhop.accelerate(jnp.sin, static_argnum=0), "static_argnums"),
        (lambda: bellhop.pure_callback(vmap_methd="sequential"), "vmap_method"),
        (lambda: bellhop.io_callback(lambda x: None, None, 1.0, orderd=True), "ordered"),
    ],
    ids=["qjit", "accelerate", "decorator", "call"],
)
def test_misspelled_options(call, option):
    with pytest.raises(TypeError, match=f"Did you mean '{option}'"):
        call()


def write_item(x):
    x[0] = 1.0
    return x[0]


def add_in_place(x):
    x += 1.0
    return x[0]


@pytest.mark.parametrize("run", [bellhop.qjit, jax.jit, lambda f: f])
@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (write_item, "copy it first: x = x.copy()"),
        (add_in_place, "copy it first: x = x.copy()"),
        (lambda x: x.at[0].set(1.0), "NumPy arrays, which have no attribute 'at'"),
    ],
    ids=["item", "augmented", "at"],
)
def test_callbacks_that_treat_arguments_as_they_may_not(run, function, hint):
    with pytest.raises((ValueError, AttributeError)) as raised:
        run(lambda x: bellhop.pure_callback(function, float)(x))(jnp.ones(3))
    assert sum(hint in note for note in raised.value.__notes__) == 1


def test_other_exceptions_of_callbacks_have_no_hint():
    with pytest.raises(ValueError, match="wrong") as raised:
        bellhop.qjit(lambda x: bellhop.pure_callback(_raise_wrong, float)(x))(jnp.ones(3))
    assert not [note for note in raised.value.__notes__ if note.startswith("bellhop")]


def _raise_wrong(x):
    raise ValueError("wrong")


def test_a_dictionary_argument_whose_keys_have_no_order():
    with pytest.raises(
        TypeError,
        match=r"the argument d\['a'\] is a dictionary with the keys 0, 'b', which cannot be sorted",
    ):
        bellhop.qjit(lambda d: d)({"a": {0: 1.0, "b": 2.0}})


MIXED = {0: 1.0, "b": 2.0}


@qml.qnode(qml.device("lightning.qubit", wires=1))
def mixed_measurements():
    return {0: qml.expval(qml.Z(0)), "b": qml.expval(qml.X(0))}


@bellhop.pure_callback
def identity(x) -> float:
    return x


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (lambda x: {"a": MIXED}, rf"qjit of '<lambda>' \({HERE}:\d+\): the result\['a'\]"),
        (lambda x: mixed_measurements(), "the QNode 'mixed_measurements' .*: the result"),
        (bellhop.grad(lambda x: MIXED), "grad of '<lambda>' .*: the result"),
        (lambda x: bellhop.grad(lambda y: y)(MIXED), "grad of '<lambda>' .*: argument 0"),
        (lambda x: bellhop.vmap(lambda y: y)(MIXED), r"vmap of .*: the argument args\[0\]"),
        (bellhop.accelerate(lambda x: MIXED), "accelerate of '<lambda>' .*: the result"),
        (
            lambda x: bellhop.accelerate(lambda y: y)(MIXED),
            "accelerate of '<lambda>' .*: the argument y",
        ),
        (lambda x: identity(MIXED), r"pure_callback 'identity' .*: the argument args\[0\]"),
        (
            lambda x: bellhop.pure_callback(lambda x: MIXED, {"a": float})(x),
            "pure_callback '<lambda>': the result",
        ),
        (
            lambda x: bellhop.pure_callback(lambda x: MIXED, bellhop.infer)(x),
            "called with zeros .* The result",
        ),
        (
            lambda x: bellhop.pure_callback(lambda x: x, MIXED)(x),
            "callback '<lambda>' .*: the declared result type",
        ),
        (
            lambda x: bellhop.for_loop(0, 2, 1)(lambda i, y: MIXED)(x),
            "for_loop of '<lambda>' .*: the result of the body",
        ),
        (
            lambda x: bellhop.while_loop(lambda y: False)(lambda y: y)(MIXED),
            r"while_loop of '<lambda>' .*: the initial value init\[0\]",
        ),
        (
            lambda x: jax.lax.cond(x > 0, lambda: x, lambda: bellhop.cond(x > 1)(lambda: MIXED)()),
            "cond: the result of the first branch '<lambda>' .*",
        ),
    ],
)
def test_a_dictionary_whose_keys_have_no_order(function, named):
    with pytest.raises(
        TypeError, match=named + " is a dictionary with the keys 0, 'b', which cannot be sorted"
    ):
        bellhop.qjit(function)(1.0)


def test_the_keys_of_an_ordered_dictionary_need_no_order():
    ordered = collections.OrderedDict(MIXED)
    assert bellhop.qjit(lambda d: d)(ordered) == ordered
    with pytest.raises(TypeError, match=r"the argument d\[0\] is of type str"):
        bellhop.qjit(lambda d: d)(collections.OrderedDict({0: "text", "b": 1.0}))


def test_cells_of_a_notebook_are_named(monkeypatch):
    """As IPython names them, which keeps each cell under a file name that nobody knows."""
    file = "/tmp/ipykernel_1/2.py"
    names = {file: ("Cell", "In[3]")}
    shell = types.SimpleNamespace(compile=types.SimpleNamespace(format_code_name=names.get))
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    scope = {}
    exec(compile("\ndef f(x):\n    return float(x)", file, "exec"), scope)
    with pytest.raises(TypeError) as raised:
        bellhop.qjit(scope["f"])(1.0)
    (note,) = (note for note in raised.value.__notes__ if note.startswith("bellhop: "))
    assert "in qjit of 'f' (In[3]:2), at In[3]:3, Python" in note
