"""What Python that a program calls sees of the context of the program's caller.

The table in ``doc/how-to/callbacks-and-gpus.md`` says the same.
"""

import contextvars
import decimal
import threading
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop

NUMBER = jax.ShapeDtypeStruct((), float)
VARIABLE = contextvars.ContextVar("variable", default="default")


class _CallersWarning(UserWarning):
    """A category that only the caller filters."""


def seen():
    """Return what is seen here of the context: variables, NumPy's options, decimal, filters."""
    return {
        "variable": VARIABLE.get(),
        "printoptions": np.get_printoptions()["precision"],
        "errstate": np.geterr()["divide"],
        "decimal": decimal.getcontext().prec,
        "filters": any(each[2] is _CallersWarning for each in warnings.filters),
    }


def looking(kind, found):
    def look(*args):
        found[kind] = seen()
        return np.float64(1.0)

    return look


def write(found):
    def call(context, out, x):
        found["buffer_callback"] = seen()
        out[...] = x

    return call


def calls(found):
    def program(x):
        pure = bellhop.pure_callback(looking("pure_callback", found), NUMBER)
        y = pure(x)
        y += bellhop.io_callback(looking("io_callback", found), NUMBER, x)
        bellhop.debug.callback(looking("callback", found), x)
        bellhop.tap(looking("tap", found), x)
        y += bellhop.buffer_callback(write(found), NUMBER)(x)
        inside = bellhop.pure_callback(looking("region", found), NUMBER)
        y += bellhop.accelerate(lambda v: inside(v) + 1, dev=jax.devices("cpu")[-1])(x)
        each = bellhop.pure_callback(
            looking("threads", found), NUMBER, vmap_method="sequential_threadpool"
        )
        return y + jax.vmap(each)(x * jnp.ones(2)).sum()

    return program


FORMS = {
    "qjit": bellhop.qjit,
    "concurrent": lambda f: bellhop.qjit(f, concurrent_callbacks=2),
    "jit": jax.jit,
    "eager": lambda f: f,
}


@pytest.mark.parametrize("form", FORMS)
def test_callbacks_see_the_context_of_the_caller_and_taps_that_of_their_thread(form):
    found = {}
    function = FORMS[form](calls(found))
    jax.block_until_ready(function(1.0))
    bellhop.barrier_wait()
    found.clear()
    of_thread = seen()
    of_caller = {}

    def call():
        VARIABLE.set("the caller's")
        with (
            np.printoptions(precision=2),
            np.errstate(divide="raise"),
            decimal.localcontext(decimal.Context(prec=5)),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("error", _CallersWarning)
            of_caller.update(seen())
            jax.block_until_ready(function(1.0))
            bellhop.barrier_wait()

    contextvars.copy_context().run(call)
    tap = found.pop("tap")
    assert len(found) == 6
    assert all(of_call == of_caller for of_call in found.values())
    # Filters of warnings are the process's; from Python 3.14 on they may be a context's.
    of_thread["filters"] = tap["filters"]
    assert tap == of_thread


def test_print_options_in_a_compiled_function_hold_for_its_prints(capsys):
    x = np.array([1 / 3])

    @bellhop.qjit
    def f(x):
        with np.printoptions(precision=2):
            bellhop.debug.print("{}", x)
        bellhop.debug.print("{}", x)

    f(x)
    assert capsys.readouterr().out == "[0.33]\n[0.33333333]\n"
    with np.printoptions(precision=4):
        f(x)
    assert capsys.readouterr().out == "[0.33]\n[0.3333]\n"

    @bellhop.qjit
    def with_functions(x):
        with np.printoptions(formatter={"float": str}):
            bellhop.debug.print("{}", x)

    with pytest.raises(ValueError, match="print: numpy.printoptions in a compiled function sets"):
        with_functions(x)


def test_saved_prints_keep_their_options(tmp_path, capsys):
    @bellhop.qjit
    def f(x):
        with np.printoptions(precision=2):
            bellhop.debug.print("{}", x)

    f(np.array([1 / 3]))
    f.save(tmp_path / "f")
    bellhop.load(tmp_path / "f")(np.array([2 / 3]))
    assert capsys.readouterr().out == "[0.33]\n[0.67]\n"


def test_a_line_is_one_write(monkeypatch):
    class Stream:
        def __init__(self):
            self.written = []

        def write(self, text):
            if text:
                self.written.append((threading.get_ident(), text))

        def flush(self):
            pass

    stream = Stream()
    monkeypatch.setattr("sys.stdout", stream)

    @bellhop.qjit
    def f(x):
        bellhop.debug.print("hello: {}", x)
        bellhop.debug.print_memref(x)

    f(1.5)
    first, second = (text for _, text in stream.written)
    assert first == "hello: 1.5\n"
    assert second.startswith("MemRef: ")
    assert second.endswith(" data =\n1.5\n")
