"""print: what appears, and which format strings are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop

X = np.array([1.0, 2.5])
CASES = {
    "no fields": (("hello",), {}, "hello"),
    "automatic fields": (("{} and {}", 1.5, X), {}, "1.5 and [1.  2.5]"),
    "numbered fields": (("{1} {0} {1}", 1, 2), {}, "2 1 2"),
    "named fields": (("{a} {b}",), {"a": 1, "b": X}, "1 [1.  2.5]"),
    "mixed fields": (("{} {a}", 1), {"a": 2}, "1 2"),
    "format specification": (("x = {x:.3f}",), {"x": 0.5}, "x = 0.500"),
    "integer format": (("{:04d}", 7), {}, "0007"),
    "conversion": (("{!r}", 1.5), {}, "array(1.5)"),
    "index": (("{0[1]}", X), {}, "2.5"),
    "attribute": (("{x.shape}",), {"x": X}, "(2,)"),
    "braces": (("{{}} {}", 1), {}, "{} 1"),
    "pytree": (("{t}",), {"t": {"a": 1, "b": (2, None)}}, "{'a': array(1), 'b': (array(2), None)}"),
    "boolean": (("{}", True), {}, "True"),
    "value alone": ((1.5,), {}, "1.5"),
    "array alone": ((X,), {}, "[1.  2.5]"),
    "values": ((1.5, 2, X), {}, "1.5 2 [1.  2.5]"),
    "unicode": (("θ = {}", 1.5), {}, "θ = 1.5"),
}


@pytest.mark.parametrize(("args", "kwargs", "expected"), CASES.values(), ids=CASES)
def test_what_is_printed(form, capsys, args, kwargs, expected):
    text, values = (args[:1], args[1:]) if isinstance(args[0], str) else ((), args)

    def f(values, kwargs):
        bellhop.debug.print(*text, *values, **kwargs)

    form(f)(values, kwargs)
    assert capsys.readouterr().out == expected + "\n"


def test_constants_print_too(form, capsys):
    form(lambda: bellhop.debug.print("{} {}", 3, [1.0, 2.0]))()
    assert capsys.readouterr().out == "3 [array(1.), array(2.)]\n"


def test_prints_follow_program_order(form, capsys):
    def f(n):
        bellhop.debug.print("begin {}", n)
        jax.lax.fori_loop(0, n, lambda i, _: bellhop.debug.print("  {}", i), None)
        bellhop.debug.print("end")

    form(f)(3)
    assert capsys.readouterr().out == "begin 3\n  0\n  1\n  2\nend\n"


def test_asynchronous_prints_are_complete_when_the_call_returns(capsys):
    def f(n):
        def body(i, _):
            bellhop.debug.print("{}", i, asynchronous=True)

        jax.lax.fori_loop(0, n, body, None)
        return n

    compiled = bellhop.qjit(f)
    for n in (50, 20):
        compiled(n)
        assert capsys.readouterr().out == "".join(f"{i}\n" for i in range(n))


def test_asynchronous_prints_are_complete_when_the_program_fails(capsys):
    def fail(x):
        raise ValueError("after printing")

    @bellhop.qjit
    def f(x):
        bellhop.debug.print(x, asynchronous=True)
        bellhop.debug.callback(fail)(x)

    with pytest.raises(ValueError, match="after printing"):
        f(1.5)
    assert capsys.readouterr().out == "1.5\n"


@pytest.mark.parametrize("form", [jax.jit, lambda f: f], ids=["jit", "eager"])
def test_asynchronous_prints_outside_qjit_wait_for_the_barrier(form, capsys):
    form(lambda x: bellhop.debug.print("x = {x}", x=x, asynchronous=True))(1.5)
    bellhop.barrier_wait()
    assert capsys.readouterr().out == "x = 1.5\n"


def test_vmap_prints_once_for_each_element(form, capsys):
    form(jax.vmap(lambda x: bellhop.debug.print("{}", x)))(jnp.arange(3))
    assert capsys.readouterr().out == "0\n1\n2\n"


BAD = {
    "too few": (("{} {}", 1), {}, "has fields for 2 positional values and got 1"),
    "too many": (("{}", 1, 2), {}, "has fields for 1 positional values and got 2"),
    "no field at all": (("text", 1), {}, "has fields for 0 positional values and got 1"),
    "number too high": (("{2}", 1), {}, "has fields for 3 positional values and got 1"),
    "missing name": (("{a}",), {}, "has no value for a"),
    "unused name": (("{a}",), {"a": 1, "b": 2}, "has no field for b"),
    "unused name alone": (("text",), {"b": 2}, "has no field for b"),
    "mixed numbering": (("{} {1}", 1, 2), {}, "numbers"),
    "unmatched brace": (("{", 1), {}, "'{'"),
    "unknown conversion": (("{!z}", 1), {}, "'z'"),
    "keyword without format": ((1.0,), {"a": 2}, "for a format string only"),
}


@pytest.mark.parametrize(("args", "kwargs", "message"), BAD.values(), ids=BAD)
def test_bad_format_is_an_error_when_traced(form, capsys, args, kwargs, message):
    text, values = args[:1], args[1:]

    def f(values, kwargs):
        bellhop.debug.print(*text, *values, **kwargs)

    with pytest.raises(ValueError, match="print") as caught:
        form(f)(values, kwargs)
    assert message in str(caught.value)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("form", [bellhop.qjit, lambda f: f], ids=["qjit", "eager"])
def test_bad_format_specification_is_an_error_that_says_where(form):
    with pytest.raises(ValueError, match="format code") as caught:
        form(lambda x: bellhop.debug.print("{:d}", x, skip_format_check=True))(1.5)
    assert f"raised in callback 'print', called from {__file__}:" in caught.value.__notes__[0]


def test_nested_field_names_in_specification(form, capsys):
    form(lambda x, w: bellhop.debug.print("{x:{w}}|", x=x, w=w))(1.5, 6)
    assert capsys.readouterr().out == "   1.5|\n"


def test_keywords_without_a_format_string_are_named():
    with pytest.raises(ValueError, match=r"arguments \(memref\) .* first argument is float64\[2\]"):
        bellhop.qjit(lambda x: bellhop.debug.print(x, memref=True))(jnp.ones(2))


@pytest.mark.parametrize("compiled", [bellhop.qjit, jax.jit])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_numbers_are_printed_as_the_caller_asks(compiled, asynchronous, capsys):
    @compiled
    def f(x):
        # XLA copies the argument, and then begins on a thread of its own.
        bellhop.debug.print(x[:2], asynchronous=asynchronous)

    x = np.full(1 << 21, 1 / 3)
    for precision in (2, 4):
        with np.printoptions(precision=precision):
            f(x)
            bellhop.barrier_wait()
            assert capsys.readouterr().out == f"{x[:2]}\n"


def test_a_line_that_python_repeats_is_one_callback_and_others_are_their_own(capsys):
    @bellhop.qjit
    def f(x):
        for i in range(3):
            bellhop.debug.print("{}", x + i)
        bellhop.debug.print("{}", x)

    f(1)
    assert capsys.readouterr().out == "1\n2\n3\n1\n"
    assert f.mlir.count('"callback.call"') == 4
    assert f.mlir.count('"callback.func"') == 2


@pytest.mark.parametrize(
    ("fmt", "value", "words"),
    [
        ("{:d}", 1.0, r"float64\[\]: Unknown format code 'd'"),
        ("{x:.2f}", X, r"float64\[2\]: unsupported format string"),
        ("{0[2]}", X, "out of bounds"),
        ("{x.nothing}", 1, "no attribute 'nothing'"),
    ],
)
def test_what_a_field_cannot_show_is_an_error_of_the_trace(fmt, value, words):
    args, kwargs = ((), {"x": value}) if "x" in fmt else ((value,), {})
    with pytest.raises(ValueError, match=f"cannot show values of the types .*{words}"):
        jax.make_jaxpr(lambda *args, **kwargs: bellhop.debug.print(fmt, *args, **kwargs))(
            *args, **kwargs
        )


def test_fields_of_fields_and_of_keys_are_as_the_run_has_them(form, capsys):
    def f(x, width):
        bellhop.debug.print("{:{}.1f}{!r:>9}", x, width, "a")
        bellhop.debug.print("{0.dtype} {0[1]}", jax.random.key_data(jax.random.key(3)))
        bellhop.debug.print("{0[0]}", jax.random.key(3))

    form(f)(1.5, 5)
    assert capsys.readouterr().out == "  1.5      'a'\nuint32 3\n0\n"
