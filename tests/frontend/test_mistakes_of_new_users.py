"""Errors for the first mistakes of users: each names a remedy that works."""

import inspect
import re
from pathlib import Path

import pennylane as qml
import pytest

import bellhop

SHOTS = re.escape("put @qml.set_shots(100) between @qjit and @qml.qnode")


def square(x):
    return x * x


def test_missing_shots_are_set_on_the_qnode():
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x, 0)
        return qml.sample()

    with pytest.raises(bellhop.CompileError, match=f"sample needs shots.*{SHOTS}"):
        circuit(0.3)
    with pytest.raises(
        bellhop.CompileError, match=f"argument shots of the call is traced.*{SHOTS}"
    ) as raised:
        circuit(0.3, shots=100)
    assert "static_arg" not in str(raised.value)


@pytest.mark.parametrize(
    ("function", "unknown", "known"),
    [
        (bellhop.grad, "argnum", "argnums"),
        (bellhop.value_and_grad, "argnum", "argnums"),
        (bellhop.jacobian, "argnum", "argnums"),
        (bellhop.vmap, "in_axis", "in_axes"),
        (bellhop.cond, "true_fun", "true_fn"),
        (bellhop.for_loop, "progres", "progress"),
        (bellhop.while_loop, "progres", "progress"),
    ],
)
def test_misspelled_options_suggest_the_known_option(function, unknown, known):
    name = function.__name__
    with pytest.raises(
        TypeError, match=f"{name} has no option '{unknown}'; there are .*Did you mean '{known}'"
    ):
        function(square, **{unknown: 0})


def test_control_flow_without_bounds_or_condition():
    with pytest.raises(TypeError, match=r"got a function.*@bellhop\.for_loop\(0, n, 1\)"):
        bellhop.for_loop(square)
    with pytest.raises(TypeError, match=r"takes the body.*@bellhop\.for_loop\(0, n, 1\)"):
        bellhop.for_loop(0, 3)(1.0)
    with pytest.raises(TypeError, match=r"takes the body.*@bellhop\.while_loop\(condition\)"):
        bellhop.while_loop(square)(1.0)
    with pytest.raises(TypeError, match=r"takes the body.*@bellhop\.while_loop\(condition\)"):
        bellhop.while_loop(square)(1.0, 2.0)
    with pytest.raises(TypeError, match=r"got a function.*@bellhop\.cond\(x > 0\)"):
        bellhop.cond(square)


def test_positional_calls_as_in_jax_show_the_form_of_bellhop():
    for call, words in (
        (lambda: bellhop.for_loop(0, 10, square, 1.0), r"got 4 positional.*for_loop\(lower, upper"),
        (lambda: bellhop.for_loop(0, 10, square), r"function as step.*for_loop\(lower, upper, 1\)"),
        (
            lambda: bellhop.while_loop(square, square, 1.0),
            r"got 3 pos.*while_loop\(cond_fn\)\(body",
        ),
        (lambda: bellhop.cond(True, square, square, 1.0), r"elifs is 1.0.*, false_fn\)\(\*args\)"),
        (lambda: bellhop.cond(True, square, square, 1, 2), r"got 5 pos.*, false_fn\)\(\*args\)"),
        (lambda: bellhop.switch(0, [square], 1.0), r"got 3 pos.*@bellhop.switch\(index\) above"),
    ):
        with pytest.raises(TypeError, match=words):
            call()


PUBLIC_FUNCTIONS = [
    *(getattr(bellhop, name) for name in bellhop.__all__),
    *(getattr(bellhop.debug, name) for name in bellhop.debug.__all__),
    *(getattr(bellhop.passes, name) for name in ("apply_pass", "cancel_inverses", "pipeline")),
    bellhop.host_callback.call,
    bellhop.QJIT.save,
]


def _has_fixed_options(function):
    parameters = inspect.signature(function).parameters.values()
    return all(each.kind is not each.VAR_KEYWORD for each in parameters)


@pytest.mark.parametrize(
    "function",
    [each for each in PUBLIC_FUNCTIONS if inspect.isfunction(each) and _has_fixed_options(each)],
    ids=lambda function: function.__name__,
)
def test_every_public_function_lists_its_options(function):
    with pytest.raises(TypeError, match=f"{function.__name__} has no option 'zzz'; there ") as e:
        function(zzz=1)
    # Users see their line, and none of ours.
    assert {frame.path for frame in e.traceback} == {Path(__file__)}


def test_misspelled_options_beside_values_suggest_the_known_option():
    for call, known in (
        (lambda: bellhop.debug.log("INFO", "{}", 1, evry=10), "every"),
        (lambda: bellhop.debug.print("{}", 1, asynchronos=True), "asynchronous"),
        (lambda: bellhop.pure_callback(square, float, vectorized=True), "vmap_method"),
        (lambda: bellhop.io_callback(square, float, 1.0, orderd=True), "ordered"),
        (lambda: bellhop.accelerate(square, devce="cpu"), "dev"),
        (lambda: bellhop.qjit(square, autogrph=True), "autograph"),
    ):
        with pytest.raises((TypeError, ValueError), match=f"Did you mean '{known}'") as e:
            call()
        assert {frame.path for frame in e.traceback} == {Path(__file__)}


def test_methods_of_jax_for_derivative_rules_name_those_of_callbacks():
    f = bellhop.pure_callback(square, float)
    with pytest.raises(AttributeError, match=r"'defvjp' \(of jax.custom_vjp.*@f.fwd above the for"):
        f.defvjp(square, square)
    assert not hasattr(f, "fwdd")


def test_errors_show_frames_of_the_user_only(tmp_path):
    saved = bellhop.qjit(square)
    saved(1.0)

    @bellhop.accelerate
    def branches(x):
        return x if x > 0 else -x

    unset = bellhop.qjit(square)
    for call, words in (
        (lambda: saved.save(tmp_path / "none" / "file"), "there is no directory"),
        (lambda: unset.mlir, "has not been compiled"),
        (lambda: bellhop.accelerate(square, dev="no such device"), "there is no device"),
        (lambda: branches(1.0), "cannot be traced"),
        (lambda: bellhop.qjit(branches)(1.0), "cannot be traced"),
        (lambda: bellhop.grad(square, method="none"), "there is no method"),
        (lambda: bellhop.pure_callback(square, float)(), "arguments do not match"),
    ):
        with pytest.raises(Exception, match=words) as raised:
            call()
        error = raised.value
        while error is not None:
            files = {code.co_filename for code, _ in _walk(error.__traceback__)}
            assert files <= {__file__}
            error = error.__cause__


def _walk(traceback):
    while traceback is not None:
        yield traceback.tb_frame.f_code, traceback.tb_lineno
        traceback = traceback.tb_next


def test_accelerate_takes_no_device_of_pennylane():
    with pytest.raises(
        ValueError, match=r"names a PennyLane device.* qml\.device\('lightning\.gpu', wires=n\)"
    ):
        bellhop.accelerate(square, dev="lightning.gpu")


def test_loaded_function_names_the_types_that_it_was_compiled_for(tmp_path):
    saved = bellhop.qjit(square)
    saved(1.0)
    saved.save(tmp_path / "square")
    loaded = bellhop.load(tmp_path / "square")
    with pytest.raises(
        TypeError, match=r"x is of type str.*saved with programs for the arguments \(x: float64"
    ) as raised:
        loaded("a")
    assert "static" not in str(raised.value)
    compiled = saved.lower(1.0).compile()
    with pytest.raises(TypeError, match=r"x is of type str.*compiled for .*float64") as raised:
        compiled("a")
    assert "static" not in str(raised.value)
