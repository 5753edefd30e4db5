"""Exceptions from inside control flow, derivatives, other programs and threads."""

import contextlib
import gc
import subprocess
import sys
import weakref
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.patience import PATIENCE, run_at_once

import bellhop


class UserError(Exception):
    pass


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
def test_inside_transformations_and_control_flow(program, flavour, raising):
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


def test_caught_inside_the_callback_is_none_of_the_callers_business(raising):
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

    run_at_once(*(partial(work, number) for number in range(8)))
    assert wrong == []


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


def test_results_before_the_exception_are_not_mixed_up(raising):
    f = bellhop.qjit(raising(UserError("x"), "pure"))
    good = [float(f(-float(i))) for i in range(5)]
    with pytest.raises(UserError):
        f(1.0)
    assert good == [-float(i) for i in range(5)]
    np.testing.assert_array_equal(
        bellhop.qjit(jax.vmap(raising(UserError("x"), "pure")))(-jnp.ones(3)), -np.ones(3)
    )


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("statement", "code", "text"),
    [
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
        ("raise SystemExit(7)", 7, ""),
        ("sys.exit('bye')", 1, "bye"),
    ],
)
def test_process_ends_as_python_would(statement, code, text):
    script = f"""
import sys, bellhop
def callback(x) -> float:
    {statement}
bellhop.qjit(lambda x: bellhop.pure_callback(callback)(x))(1.0)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE
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
