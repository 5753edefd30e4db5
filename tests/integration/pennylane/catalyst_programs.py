"""Programs without circuits whose results differ from Catalyst's, by section of the page."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
from tests.integration.pennylane.catalyst_row import Row, describe_result, double, node, rx

import bellhop
from bellhop import for_loop, grad, pure_callback, qjit, switch, while_loop

SECTIONS: dict[str, list[Row]] = {}

# Arguments and results

observable = lambda H: qml.expval(H)
scaled = lambda x, k: x * len(k)
method = type("Model", (), {"run": qjit(lambda self, x: 2 * x, static_argnums=0)})
callback_of_jax = partial(jax.pure_callback, np.sin, jax.ShapeDtypeStruct((), float))


def traces(*arguments):
    """How often a function is traced."""
    traced = []
    f = qjit(lambda x: (traced.append(1), 2 * x)[1])
    for argument in arguments:
        f(argument)
    return len(traced)


SECTIONS["Arguments and results"] = [
    Row("`f(1.5)` of a Python number", "float64 1.5", lambda: qjit(double)(0.75)),
    Row("a `float16` or `bfloat16`", "TypeError", lambda: qjit(double)(np.float16(1))),
    Row("a `uint8` of 255, plus 1", "int8 0", lambda: qjit(lambda x: x + 1)(np.uint8(255))),
    Row(
        "a key, `jax.random.key(0)`",
        "TypeError",
        lambda: qjit(jax.random.bits)(jax.random.key(0)).dtype,
    ),
    Row("`True` after `2`", "int64 1", lambda: (f := qjit(lambda x: x)) and (f(2), f(True))[1]),
    Row(
        "`f` of 2, 3, 2 elements: programs compiled",
        "3",
        lambda: traces(np.ones(2), np.ones(3), np.ones(2)),
    ),
    Row(
        "an observable as an argument", "TypeError", lambda: qjit(node(observable))(1.0 * qml.Z(0))
    ),
    Row(
        "`static_argnames`, given by name",
        "CompileError",
        lambda: qjit(scaled, static_argnames="k")(1.0, k="ab"),
    ),
    Row(
        "`static_argnames`, given by position",
        "TypeError",
        lambda: qjit(scaled, static_argnames="k")(1.0, "ab"),
    ),
    Row(
        "`static_argnums=1`, given by name",
        "CompileError",
        lambda: qjit(scaled, static_argnums=1)(1.0, k="ab"),
    ),
    Row("`static_argnums=-1`", "CompileError", lambda: qjit(scaled, static_argnums=-1)(1.0, "ab")),
    Row(
        "`static_argnums=7` of two arguments",
        "CompileError",
        lambda: qjit(scaled, static_argnums=7)(1.0, "ab"),
    ),
    Row("a method, `self` static", "TypeError", lambda: method().run(1.0)),
    Row("`jnp.fft.fft`", "CompileError", lambda: qjit(jnp.fft.fft)(np.ones(2))),
    Row(
        "`jax.pure_callback`, `jax.debug.print`", "CompileError", lambda: qjit(callback_of_jax)(1.0)
    ),
]

# When it is compiled


def made(annotation):
    """How often a function with such an argument is traced where it is decorated."""
    traced = []

    def f(x):
        traced.append(1)
        return x

    f.__annotations__["x"] = annotation
    qjit(f)
    return len(traced)


def warned():
    def f(x: jax.ShapeDtypeStruct((2,), float)):
        return 2 * x

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        qjit(f)(np.ones(3))
    return [str(w.category.__name__) for w in seen]


GONE = "capture generate_ir c_sig llvmir compiler fn_cache out_type user_sig overwrite_ir"


def gone():
    f = qjit(double)
    return {describe_result(lambda name=name: getattr(f, name)) for name in GONE.split()}


SECTIONS["When it is compiled"] = [
    Row(
        "declared as `jax.ShapeDtypeStruct`: programs compiled at once",
        "0",
        lambda: made(jax.ShapeDtypeStruct((2,), float)),
    ),
    Row("as a tuple of types", "0", lambda: made((float, float))),
    Row("as `np.ndarray`", "TypeError", lambda: made(np.ndarray)),
    Row("a call with a shape that is not declared: warnings", "()", warned),
    Row("an unknown `target=`", "taken", lambda: qjit(double, target="nothing")),
    Row("`seed=1.5`", "MLIRError", lambda: qjit(double, seed=1.5)(1.0)),
    Row("`f.mlir` and `f.jaxpr` before a call", "None", lambda: qjit(double).mlir),
    Row("`" + "`, `".join(f".{name}" for name in GONE.split()) + "`", "there", gone),
]

# Control flow


def repeated(body, *carried, upper=2):
    return lambda: for_loop(0, upper, 1)(body)(*carried)


def cases(index):
    @switch(index)
    def chosen():
        return 1.0

    chosen.branch(-1)(lambda: 2.0)
    return chosen()


def chosen(condition):
    branches = bellhop.cond(condition)(lambda: 1)
    branches.otherwise(lambda: 2)
    return branches()


SECTIONS["Control flow"] = [
    Row(
        "`for_loop(n)`", "TypeError", lambda: qjit(lambda n: for_loop(n)(lambda i, s: s + i)(0))(4)
    ),
    Row(
        "an int that becomes a float in the body",
        "AssertionError",
        lambda: qjit(repeated(lambda i, s: s + 0.5, 0))(),
    ),
    Row(
        "a `float32` that becomes a `float64`",
        "AssertionError",
        lambda: qjit(repeated(lambda i, s: s * jnp.float64(2), jnp.float32(1)))(),
    ),
    Row(
        "an int and a float that swap places",
        "AssertionError",
        lambda: qjit(repeated(lambda i, a, b: (b, a), 0, 1.0))(),
    ),
    Row(
        "another shape, or structure",
        "AssertionError",
        lambda: qjit(repeated(lambda i, a: (a, a), 0))(),
    ),
    Row(
        "a bound that is a float",
        "CompileError",
        lambda: qjit(lambda n: for_loop(0, n, 1)(lambda i, s: s)(0))(2.0),
    ),
    Row(
        "a `while_loop` whose condition is a number",
        "TypeError",
        lambda: qjit(while_loop(lambda x: x)(lambda x: x - 1))(3),
    ),
    Row("a condition of shape (1,)", "CompileError", lambda: qjit(chosen)(np.array([True]))),
    Row("`switch` of True, with a case -1", "float64 2.0", lambda: qjit(cases)(True)),
    Row(
        "`jax.vmap` and `jax.grad` of a QNode, inside",
        "NotImplementedError",
        lambda: qjit(jax.grad(node(rx)))(0.5),
    ),
    Row(
        "`jax.hessian` of a compiled QNode", "ValueError", lambda: jax.hessian(qjit(node(rx)))(0.5)
    ),
]

# Callbacks


def calls(program):
    """How often a program calls a function."""
    seen = []
    qjit(partial(program, pure_callback(lambda x: (seen.append(1), x)[1], float)))(1.0)
    return len(seen)


def ruled(forward=lambda x: (jnp.sin(x), x), backward=lambda x, d: jnp.cos(x) * d):
    sine = pure_callback(lambda x: np.asarray(np.sin(x)), float)
    sine.fwd(forward)
    sine.bwd(backward)
    return sine


def gives(value, declared=float):
    return lambda: qjit(pure_callback(lambda x: value, declared))(1.0)


def written(x):
    x[0] = 5
    return x


two = jax.ShapeDtypeStruct((2,), float)
twice = lambda f: lambda x: for_loop(0, 2, 1)(lambda i, y: f(y))(x)
SECTIONS["Callbacks"] = [
    Row("a Python float where `float` is declared", "TypeError", gives(2.0)),
    Row("a bool where `float` is declared", "TypeError", gives(True)),
    Row("None where `float` is declared", "memory of something else", gives(None)),
    Row("a list where an array is declared", "TypeError", gives([1.0, 2.0], two)),
    Row(
        "a list where a tuple is declared",
        "other numbers",
        gives(list(np.array([1.0, 2.0])), (float, float)),
    ),
    Row("None, or a dtype, as the declared type", "TypeError", gives(2.0, np.dtype("float64"))),
    Row(
        "a function that writes to its argument",
        "TypeError",
        lambda: qjit(pure_callback(written, two))(np.ones(2)),
    ),
    Row(
        "a call outside of a program",
        "2.0, a Python number",
        lambda: pure_callback(double, float)(1.0),
    ),
    Row(
        "a call under `jax.vmap`",
        "NotImplementedError",
        lambda: qjit(jax.vmap(pure_callback(double, float)))(np.ones(2)),
    ),
    Row("an unused result: calls", "1", lambda: calls(lambda f, x: (f(x), x)[1])),
    Row("two equal calls: calls", "2", lambda: calls(lambda f, x: f(x) + f(x))),
    Row(
        "`grad` without rules",
        "CompileError",
        lambda: qjit(grad(pure_callback(double, float)))(1.0),
    ),
    Row("`jax.grad`, `vjp`", "AssertionError", lambda: qjit(jax.grad(ruled()))(1.0)),
    Row(
        "`jvp` of `fwd` and `bwd`",
        "AssertionError",
        lambda: qjit(lambda x: bellhop.jvp(ruled(), (x,), (1.0,)))(1.0),
    ),
    Row("`grad` of `grad`", "DifferentiableCompileError", lambda: qjit(grad(grad(ruled())))(1.0)),
    Row(
        "`grad` of two of them in a loop, of 0.36",
        "float64 0.9003",
        lambda: qjit(grad(twice(ruled())))(1.0),
    ),
    Row(
        "`bwd` that returns an int, 1",
        "float64 0.0",
        lambda: qjit(grad(ruled(backward=lambda x, d: 1)))(1.0),
    ),
    Row(
        "a `float32`",
        "float64 0.0",
        lambda: qjit(grad(ruled(backward=lambda x, d: jnp.float32(1))))(1.0),
    ),
    Row(
        "another shape",
        "float64 1.0",
        lambda: qjit(grad(ruled(backward=lambda x, d: jnp.ones(2))))(1.0),
    ),
    Row("nothing, `()`", "float64 0.0", lambda: qjit(grad(ruled(backward=lambda x, d: ())))(1.0)),
    Row(
        "`fwd` that returns another type",
        "float64 0.5403",
        lambda: qjit(grad(ruled(lambda x: (jnp.float32(1), x))))(1.0),
    ),
]

# Autograph


def added(n):
    s = 0
    for _i in range(n):
        s = s + 0.5
    return s


def in_a_lambda(x):
    return (lambda y: 1.0 if y > 0 else 2.0)(x)


def otherwise(x):
    while x < 5:
        x += 1
    else:
        x = 100
    return x


def listed(n):
    return [i for i in range(n)]  # noqa: C416


SECTIONS["Autograph"] = [
    Row(
        "an int that becomes a float in a loop",
        "TracerIntegerConversionError",
        lambda: qjit(added, autograph=True)(3),
    ),
    Row(
        "`a if x else b` in a lambda",
        "TracerBoolConversionError",
        lambda: qjit(in_a_lambda, autograph=True)(1.0),
    ),
    Row(
        "`while ... else`, `for ... else`",
        "UnsupportedLanguageElementError",
        lambda: qjit(otherwise, autograph=True)(1.0),
    ),
    Row(
        "a comprehension over a traced `range`",
        "TracerIntegerConversionError",
        lambda: qjit(listed, autograph=True)(3),
    ),
]

# Passes and debugging


def printed(x):
    bellhop.debug.print("{}", "a string")
    return x


def stage(name):
    f = qjit(double, keep_intermediate=True)
    f(1.0)
    return bellhop.debug.get_compilation_stage(f, name)


def held(x):
    bellhop.debug_assert(x, "message")
    return x


SECTIONS["Passes and debugging"] = [
    Row(
        "`pipeline` of an unknown pass",
        "CompileError",
        lambda: qjit(bellhop.pipeline({"nothing": {}})(node(rx)))(0.5),
    ),
    Row("`debug.print` of a string", "TypeError", lambda: qjit(printed)(1.0)),
    Row(
        "`debug_assert` of a number, of an array",
        "CompileError",
        lambda: (qjit(held)(2), qjit(held)(np.ones(2))),
    ),
    Row("`debug_assert` outside of a program", "TypeError", lambda: held(0)),
    Row("`debug.get_cmain`", "C source", lambda: bellhop.debug.get_cmain(qjit(double), 1.0)),
    Row(
        "`get_compilation_stage` of its passes' names",
        "the module",
        lambda: len(stage("BufferizationStage")),
    ),
    Row(
        "`accelerate(dev='cpu')`",
        "ValueError",
        lambda: qjit(lambda x: bellhop.accelerate(double, dev="cpu")(x))(1.0),
    ),
    Row(
        "`accelerate` of a function that cannot be traced",
        "ValueError",
        lambda: qjit(lambda x: bellhop.accelerate(lambda y: float(y))(x))(1.0),
    ),
]
