"""Exceptions raised in callbacks reach the caller as the objects that they are."""

import contextlib
import gc
import threading
import traceback
import weakref

import bellhop
import jax
import jax.numpy as jnp
import numpy as np
import pytest


class UserError(Exception):
    pass


class OddError(Exception):
    """Cannot be made from its own arguments."""

    def __init__(self, code, *, detail):
        super().__init__(code)
        self.detail = detail


class SlottedError(Exception):
    __slots__ = ("code",)


class NoNotesError(Exception):
    def add_note(self, note):
        raise TypeError("no notes here")


class SilentError(Exception):
    def __str__(self):
        raise RuntimeError("no text either")


class SurrogateError(Exception):
    def __str__(self):
        return "\udcff\0 not UTF-8 [bellhop run 1]"


EXCEPTIONS = [
    UserError("text", 3),
    ValueError("text"),
    TypeError(),
    KeyError("key"),
    ZeroDivisionError("x"),
    StopIteration(3),
    OddError(3, detail={"a": 1}),
    SlottedError("x"),
    NoNotesError("x"),
    SilentError(),
    SurrogateError(),
    ExceptionGroup("group", [ValueError("1"), TypeError("2")]),
    KeyboardInterrupt(),
    SystemExit(3),
    GeneratorExit(),
    MemoryError(),
    RecursionError("user's own"),
    AssertionError("a"),
    OSError(2, "No such file", "name"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "reason"),
    jax.errors.JaxRuntimeError("INTERNAL: pretended [bellhop run 0]"),
]


def raising(exception, flavour):
    """Return a program that raises where its argument is above 0."""

    def callback(x):
        if x > 0:
            raise exception
        return float(x)

    if flavour == "pure":
        pure = bellhop.pure_callback(callback, float)
        return lambda x: pure(x)

    def effect(x):
        bellhop.debug.callback(callback)(x)
        return x

    return effect


@pytest.mark.parametrize("exception", EXCEPTIONS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("flavour", ["pure", "debug"])
@pytest.mark.parametrize("form", [bellhop.qjit, lambda f: f], ids=["qjit", "eager"])
def test_same_object_on_first_and_cached_calls(exception, flavour, form):
    f = form(raising(exception, flavour))
    args = exception.args
    for value in (1.0, 2.0, -1.0, 1.0, -2.0):
        if value < 0:
            assert f(value) == value
            continue
        with pytest.raises(type(exception)) as caught:
            f(value)
        assert caught.value is exception
        assert caught.value.args == args
    # pytest and this list hold on to it.
    exception.__traceback__ = None


def test_note_names_callback_and_line_of_the_call():
    def broken(x) -> float:
        raise UserError("text")

    callback = bellhop.pure_callback(broken)

    def traced(x):
        return callback(x)  # the line

    line = traced.__code__.co_firstlineno + 1
    with pytest.raises(UserError) as caught:
        bellhop.qjit(traced)(1.0)
    assert caught.value.__notes__ == [f"raised in callback 'broken', called from {__file__}:{line}"]


def test_note_is_added_once_to_an_exception_that_is_raised_often():
    exception = UserError()
    f = bellhop.qjit(raising(exception, "pure"))
    for _ in range(3):
        with pytest.raises(UserError):
            f(1.0)
    assert len(exception.__notes__) == 1
    exception.__traceback__ = None


def test_traceback_shows_the_users_frames():
    def innermost():
        raise UserError("deep")

    def helper():
        innermost()

    def callback(x) -> float:
        helper()

    f = bellhop.qjit(lambda x: bellhop.pure_callback(callback)(x))
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            f(1.0)
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert names[-3:] == ["callback", "helper", "innermost"]
        assert names[0] == "test_traceback_shows_the_users_frames"


def test_cause_and_context_are_kept():
    def with_cause(x) -> float:
        try:
            raise KeyError("cause")
        except KeyError as error:
            raise UserError("effect") from error

    def with_context(x) -> float:
        try:
            raise KeyError("context")
        except KeyError:
            raise UserError("effect")  # noqa: B904

    for function in (with_cause, with_context):
        f = bellhop.qjit(lambda x, g=function: bellhop.pure_callback(g)(x))
        for _ in range(2):
            with pytest.raises(UserError) as caught:
                f(1.0)
            assert type(caught.value.__context__) is KeyError
            assert (caught.value.__cause__ is not None) == (function is with_cause)


def test_no_context_of_ours():
    f = bellhop.qjit(raising(UserError("x"), "pure"))
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            f(1.0)
        assert caught.value.__context__ is None
        assert caught.value.__cause__ is None


PROGRAMS = {
    "vmap": lambda f: lambda x: jax.vmap(f)(jnp.array([-1.0, x, 2.0])),
    "scan": lambda f: lambda x: jax.lax.scan(lambda c, v: (f(c + v), v), -2.0, jnp.ones(9) * x)[0],
    "while": lambda f: lambda x: jax.lax.while_loop(lambda v: f(v) <= 0, lambda v: v + x, -3.0),
    "cond": lambda f: lambda x: jax.lax.cond(x > 0, f, lambda v: v, x),
    "nested jit": lambda f: jax.jit(f),
    "checkpoint": lambda f: jax.checkpoint(f),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("flavour", ["pure", "debug"])
def test_inside_transformations_and_control_flow(program, flavour):
    exception = UserError("inside")
    f = bellhop.qjit(program(raising(exception, flavour)))
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            f(1.0)
        assert caught.value is exception
    exception.__traceback__ = None


@pytest.mark.parametrize("where", ["value", "fwd", "bwd"])
def test_inside_a_derivative(where):
    exception = UserError(where)

    def maybe(name):
        def function(x):
            if name == where:
                raise exception
            return 2 * float(x)

        return bellhop.pure_callback(function, float)

    main = bellhop.pure_callback(lambda x: 2 * float(x), float)
    main.fwd(lambda x: (main(x), maybe("fwd")(x)))
    main.bwd(lambda r, dy: maybe("bwd")(r) * dy)

    f = bellhop.qjit(jax.grad(lambda x: main(x) * maybe("value")(jax.lax.stop_gradient(x))))
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            f(1.0)
        assert caught.value is exception
    exception.__traceback__ = None


def test_through_nested_qjit_functions():
    exception = UserError("deep down")

    def innermost(x) -> float:
        raise exception

    inner = bellhop.qjit(lambda x: bellhop.pure_callback(innermost)(x))

    def middle(x) -> float:
        return float(inner(x))

    outer = bellhop.qjit(lambda x: bellhop.pure_callback(middle)(x))
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            outer(1.0)
        assert caught.value is exception
        notes = caught.value.__notes__
        assert ["'innermost'" in notes[0], "'middle'" in notes[1], len(notes)] == [True, True, 2]
    exception.__traceback__ = None


def test_of_a_plain_jit_program_inside_a_callback():
    inner = jax.jit(raising(UserError("inner"), "pure"))

    def middle(x) -> float:
        return float(inner(x))

    outer = bellhop.qjit(lambda x: bellhop.pure_callback(middle)(x))
    for _ in range(2):
        # JAX's own exception, from the inner program, and no other.
        with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="UserError: inner"):
            outer(1.0)


def test_caught_inside_the_callback_is_none_of_the_callers_business():
    inner = bellhop.qjit(raising(UserError("x"), "pure"))

    def careful(x) -> float:
        try:
            return float(inner(x))
        except UserError:
            return -1.0

    outer = bellhop.qjit(lambda x: bellhop.pure_callback(careful)(x))
    assert [float(outer(1.0)), float(outer(-5.0)), float(outer(1.0))] == [-1.0, -5.0, -1.0]


@pytest.mark.parametrize("flavour", ["pure", "debug"])
def test_eight_threads_each_get_their_own(flavour):
    def callback(x):
        if x % 2:
            raise UserError(float(x))
        return float(x)

    def program(x):
        if flavour == "debug":
            bellhop.debug.callback(callback)(x)
            return x
        return bellhop.pure_callback(callback, float)(x)

    f = bellhop.qjit(program)
    wrong = []

    def work(number):
        for i in range(40):
            x = float(number * 100 + i)
            try:
                result = float(f(x))
            except UserError as error:
                if error.args != (x,) or not x % 2:
                    wrong.append((x, error))
            except BaseException as error:
                wrong.append((x, error))
            else:
                if result != x or x % 2:
                    wrong.append((x, result))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("flavour", ["pure", "debug"])
def test_plain_jit_raises_with_the_text_and_keeps_nothing(flavour):
    class Witness:
        pass

    def make(witness):
        def callback(x):
            if x > 0:
                raise UserError("text", witness)
            return float(x)

        def program(x):
            if flavour == "debug":
                bellhop.debug.callback(callback)(x)
                return x
            return bellhop.pure_callback(callback, float)(x)

        return jax.jit(program), weakref.ref(witness)

    f, reference = make(Witness())
    for _ in range(3):
        # JAX raises ValueError on cached calls.
        with pytest.raises((jax.errors.JaxRuntimeError, ValueError)) as caught:
            f(1.0)
        text = str(caught.value)
        assert "UserError: ('text'" in text
        assert f"(raised in callback 'callback', called from {__file__}:" in text
        assert "bellhop run" not in text
    assert f(-1.0) == -1.0
    del caught, f
    jax.clear_caches()
    gc.collect()
    assert reference() is None


def test_exception_is_freed_when_the_caller_drops_it():
    references = []

    def callback(x) -> float:
        error = UserError("x")
        references.append(weakref.ref(error))
        raise error

    f = bellhop.qjit(lambda x: bellhop.pure_callback(callback)(x))
    for _ in range(3):
        with contextlib.suppress(UserError):
            f(1.0)
        gc.collect()
        assert references[-1]() is None


def test_error_of_the_users_own_while_tracing_is_untouched():
    def broken(x):
        raise ValueError("mine [bellhop run 3]")

    with pytest.raises(ValueError, match=r"^mine \[bellhop run 3\]"):
        bellhop.qjit(broken)(1.0)


def test_results_before_the_exception_are_not_mixed_up():
    f = bellhop.qjit(raising(UserError("x"), "pure"))
    good = [float(f(-float(i))) for i in range(5)]
    with pytest.raises(UserError):
        f(1.0)
    assert good == [-float(i) for i in range(5)]
    np.testing.assert_array_equal(
        bellhop.qjit(jax.vmap(raising(UserError("x"), "pure")))(-jnp.ones(3)), -np.ones(3)
    )


@pytest.mark.parametrize(
    ("statement", "code", "text"),
    [
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
        ("raise SystemExit(7)", 7, ""),
        ("sys.exit('bye')", 1, "bye"),
    ],
)
def test_process_ends_as_python_would(statement, code, text):
    import subprocess
    import sys

    script = f"""
import sys, bellhop
def callback(x) -> float:
    {statement}
bellhop.qjit(lambda x: bellhop.pure_callback(callback)(x))(1.0)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode in (code, -2)
    assert text in done.stderr


def test_process_exits_cleanly_after_a_failure(run_script):
    out = run_script(
        """
        import bellhop
        def callback(x) -> float:
            raise LookupError("x")
        f = bellhop.qjit(lambda x: bellhop.pure_callback(callback)(x))
        for _ in range(2):
            try:
                f(1.0)
            except LookupError as error:
                print(type(error).__name__)
        """
    )
    assert out.split() == ["LookupError"] * 2
