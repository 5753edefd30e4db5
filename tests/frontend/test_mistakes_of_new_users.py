"""Errors for the first mistakes of users: each names a remedy that works."""

import inspect
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
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
        bellhop.CompileError, match=f"called with a traced argument shots.*{SHOTS}"
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


def test_options_of_other_libraries_name_the_remedy():
    for call, words in (
        (lambda: bellhop.grad(square, has_aux=True), "Use jax.grad, which has this option"),
        (lambda: bellhop.value_and_grad(square, has_aux=True), "Use jax.value_and_grad, which"),
        (lambda: bellhop.jacobian(square, holomorphic=True), "Use jax.jacrev, which"),
        (lambda: bellhop.vmap(square, axis_name="i"), "Use jax.vmap, which"),
        (lambda: bellhop.qjit(square, shots=100), f"Shots belong to the QNode: {SHOTS}"),
        (lambda: bellhop.qjit(square, diff_method="adjoint"), r"qml.qnode\(device, diff_method="),
    ):
        with pytest.raises(TypeError, match=f"has no option .*{words}"):
            call()


def test_compiled_transformations_show_how_to_compile_their_result():
    for compiled, words in (
        (
            bellhop.qjit(bellhop.grad),
            r"qjit of bellhop.grad: the arg.* qjit\(bellhop.grad\(f",
        ),
        (bellhop.qjit(jax.vmap), r"@qjit above @jax\.vmap"),
        (bellhop.accelerate(jax.grad), r"Transform the function first: accelerate\(jax.grad\(f"),
    ):
        with pytest.raises(TypeError, match=words):
            compiled(square)


def test_control_flow_without_bounds_or_condition():
    with pytest.raises(TypeError, match=r"got the function .*@bellhop\.for_loop\(0, n, 1\)"):
        bellhop.for_loop(square)
    with pytest.raises(TypeError, match=r"takes the body.*@bellhop\.for_loop\(0, n, 1\)"):
        bellhop.for_loop(0, 3)(1.0)
    with pytest.raises(TypeError, match=r"takes the body.*@bellhop\.while_loop\(condition\)"):
        bellhop.while_loop(square)(1.0)
    with pytest.raises(TypeError, match=r"takes the body.*@bellhop\.while_loop\(condition\)"):
        bellhop.while_loop(square)(1.0, 2.0)
    with pytest.raises(TypeError, match=r"got the function .*@bellhop\.cond\(x > 0\)"):
        bellhop.cond(square)


def test_positional_calls_as_in_jax_show_the_form_of_bellhop():
    for call, words in (
        (
            lambda: bellhop.for_loop(0, 10, square, 1.0),
            r"got 4 positional arguments, expected .*for_loop",
        ),
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
    # Users see their own lines only.
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


def test_formatting_of_traced_values_warns(capsys):
    def program(x):
        print(f"x = {x}")
        bellhop.debug.print(f"x = {x}")
        jax.lax.fori_loop(0, 1, lambda i, y: (print("{}".format(y)), y)[1], x)  # noqa: UP032
        return x

    first = program.__code__.co_firstlineno
    for function in (program, bellhop.accelerate(program)):
        with pytest.warns(
            UserWarning, match="a traced value is formatted as .*debug.print"
        ) as found:
            bellhop.qjit(function)(1.0)
        assert {each.filename for each in found} == {__file__}
        assert {first + 1, first + 2, first + 3} <= {each.lineno for each in found}
    with pytest.raises(TypeError) as raised:
        bellhop.qjit(lambda x: print(f"{x:.2f}"))(1.0)
    assert any("a traced value is formatted. While" in note for note in raised.value.__notes__)
    # Programs of others are as before.
    capsys.readouterr()
    jax.eval_shape(lambda x: print(f"{x}"), 1.0)
    assert "Tracer" in capsys.readouterr().out


def test_items_of_arrays_are_not_assigned_in_programs():
    def numpy_array(x):
        a = np.zeros(3)
        a[0] = x
        return a

    def numpy_index(x):
        a = np.zeros(3)
        a[x.astype(int)] = 1
        return a

    def jax_array(x):
        a = jnp.zeros(3)
        a[0] = x
        return a

    def in_tuple(x):
        values = (1.0, 2.0)
        values[0] = x

    for function in (numpy_array, numpy_index, jax_array):
        with pytest.raises((TypeError, ValueError)) as raised:
            bellhop.qjit(function)(1.0)
        (note,) = (each for each in raised.value.__notes__ if each.startswith("bellhop: "))
        line = function.__code__.co_firstlineno + 2
        assert f"at {__file__}:{line}, an item of an array is changed in place." in note
        assert "a = a.at[i].set(value) in place of a[i] = value" in note
        with pytest.raises(bellhop.CompileError, match=f"{function.__name__}.*an item of an array"):
            bellhop.accelerate(function)(1.0)
    with pytest.raises(TypeError, match="does not support item") as raised:
        bellhop.qjit(in_tuple)(1.0)
    assert not any(each.startswith("bellhop: ") for each in raised.value.__notes__)


@pytest.mark.parametrize("is_circuit", [False, True])
def test_a_value_that_leaves_a_loop_in_a_list_is_of_the_body(is_circuit):
    values = []

    def program(x):
        @bellhop.for_loop(0, 3, 1)
        def body(i, x):
            values.append(2 * x)
            return x

        body(x)
        return values[-1]

    def quantum(x):
        qml.RX(program(x), 0)
        return qml.expval(qml.Z(0))

    line = program.__code__.co_firstlineno + 1
    function = qml.QNode(quantum, qml.device("lightning.qubit", wires=1)) if is_circuit else program
    with pytest.raises(jax.errors.UnexpectedTracerError, match=rf"of 'body' \({__file__}:{line}\)"):
        bellhop.qjit(function)(1.0)


def test_what_jax_says_of_a_leaked_value_has_the_line_of_the_user():
    values = []
    jax.jit(values.append)(1.0)

    def program(x):
        return jax.lax.fori_loop(0, 3, lambda i, x: x + values[0], x)

    with pytest.raises(jax.errors.UnexpectedTracerError) as raised:
        bellhop.qjit(program)(1.0)
    said = "".join([str(raised.value), *raised.value.__notes__])
    assert f"{__file__}:{program.__code__.co_firstlineno + 1}" in said
    assert "jax.lax.scan stacks the values that its body returns" in said


def test_a_leaked_value_as_an_argument_has_the_line_of_the_user():
    values = []
    jax.jit(values.append)(1.0)
    with pytest.raises(jax.errors.UnexpectedTracerError) as raised:
        bellhop.qjit(square)(values[0])
    (note,) = (each for each in raised.value.__notes__ if each.startswith("bellhop: "))
    assert f"called at {__file__}:" in note
    assert "an argument is a value of another traced function or loop. Return the value" in note


@pytest.mark.parametrize(
    ("transform", "function"),
    [
        (jax.grad, "a function that jax.grad or jax.linearize differentiates"),
        (lambda f: lambda x: jax.jvp(f, (x,), (x,)), "a function that jax.jvp or"),
        (lambda f: lambda x: jax.vmap(f)(x[None]), "a function that jax.vmap maps"),
    ],
)
def test_a_value_that_leaves_a_transformation_is_named(transform, function):
    """Tracers of transformations have no source location; the values they wrap have."""
    values = []

    def program(x):
        transform(lambda v: (values.append(2 * v), v)[1])(x)
        return values.pop()

    line = program.__code__.co_firstlineno + 1
    with pytest.raises(jax.errors.UnexpectedTracerError) as raised:
        bellhop.qjit(program)(1.0)
    assert f"computed at {__file__}:{line}, which was stored outside of {function}" in str(
        raised.value
    )


def test_an_if_in_a_region_names_the_conditionals():
    def absolute(x):
        return x if x > 0 else -x

    line = absolute.__code__.co_firstlineno + 1
    with pytest.raises(
        bellhop.CompileError,
        match=rf"'absolute'.* At {__file__}:{line}, .*bellhop.cond, qml.cond, jax.lax.cond or",
    ):
        bellhop.qjit(bellhop.accelerate(absolute))(1.0)


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
        (lambda: bellhop.accelerate(square, dev="gpu:9"), "Leave out dev= .* device, cpu:0"),
        (lambda: branches(1.0), "cannot be traced"),
        (lambda: bellhop.qjit(branches)(1.0), "cannot be traced"),
        (lambda: bellhop.grad(square, method="none"), "there is no method"),
        (lambda: bellhop.grad(lambda x: x * jnp.ones(2))(1.0), "must be one scalar"),
        (lambda: bellhop.vmap(square, in_axes=3)(1.0), "axis 3"),
        (lambda: bellhop.draw(lambda x: x + None)(1.0), "unsupported operand"),
        (lambda: bellhop.for_loop(0, 3, 1)(square)(1.0), "expected 2 parameters"),
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
        TypeError, match=r"x is of type str.*The file has programs for the arguments \(x: float64"
    ) as raised:
        loaded("a")
    assert "static" not in str(raised.value)
    compiled = saved.lower(1.0).compile()
    with pytest.raises(TypeError, match=r"x is of type str.*compiled for .*float64") as raised:
        compiled("a")
    assert "static" not in str(raised.value)


def test_options_that_are_passed_by_position_are_listed():
    with pytest.raises(TypeError, match=r"Pass in_axes by keyword: vmap\(fn, in_axes=\(0, None\)"):
        bellhop.vmap(lambda x, y: x * y, (0, None))
    with pytest.raises(TypeError, match="Pass options by keyword: .*argnums"):
        bellhop.grad(lambda x, y: x * y, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bellhop.draw(square, 1.0), r"expected at most 1: fn. Write draw\(fn\)"),
        (
            lambda: bellhop.profile(square),
            "got 1 positional arguments, expected none. Write",
        ),
        (lambda: bellhop.debug.log("INFO", "x %f", 1.0), "Write fields as {} .* not %f"),
        (lambda: bellhop.debug.log("x {}", 1.0), r"Pass the level first: log\('INFO'"),
        (lambda: bellhop.qjit(_halve)(1.0), "while_loop in place of while"),
    ],
    ids=["draw", "profile", "percent", "level", "while"],
)
def test_calls_in_the_form_of_other_libraries_show_the_form_of_bellhop(call, message):
    with pytest.raises((TypeError, ValueError)) as raised:
        call()
    text = "".join([str(raised.value), *getattr(raised.value, "__notes__", [])])
    assert re.search(message, text), text


def _halve(x):
    while x > 0.1:
        x = x / 2
    return x
