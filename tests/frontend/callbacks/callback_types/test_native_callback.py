"""native_callback: C functions in compiled programs. Closures of ctypes are C functions too."""

import ctypes
import subprocess
import threading
from ctypes import POINTER, c_bool, c_double, c_float, c_int32, c_int64, c_uint8

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.needs import NUMBA

import bellhop
import bellhop_runtime

C = ctypes.CFUNCTYPE
LIBM = "libm.so.6"
DOUBLES = POINTER(c_double)


def vector(n):
    return jax.ShapeDtypeStruct((n,), float)


@pytest.fixture(params=["eager", "jit", "qjit"])
def run(request):
    return {"eager": lambda f: f, "jit": jax.jit, "qjit": bellhop.qjit}[request.param]


@C(None, c_double, DOUBLES, c_int64, DOUBLES, c_int64)
def scale(a, x, n, y, m):
    np.ctypeslib.as_array(y, (m,))[:] = a * np.ctypeslib.as_array(x, (n,))


def test_symbol_of_a_library(run):
    cbrt = bellhop.native_callback(library=LIBM, symbol="cbrt", result_type=float)
    assert run(cbrt)(8.0) == 2.0


def test_scalars_are_passed_by_value(run):
    @C(c_float, c_float, c_int32, c_double, c_uint8, c_bool)
    def add(a, b, c, d, e):
        return a + b + c + d + 10 * e

    f = bellhop.native_callback(add)
    args = np.float32(1.5), np.int32(-2), 2.25, np.uint8(200), True
    result = run(lambda: f(*args))()
    assert (result, result.dtype) == (211.75, np.float32)


def test_more_parameters_than_registers(run):
    @C(c_double, *[c_double] * 10, *[c_int64] * 8, c_double)
    def weigh(*values):
        return sum((i + 1) * value for i, value in enumerate(values))

    values = np.random.default_rng(0).integers(-9, 9, 19).astype(float)
    args = [int(v) if 10 <= i < 18 else float(v) for i, v in enumerate(values)]
    assert run(lambda: bellhop.native_callback(weigh)(*args))() == values @ np.arange(1, 20)


def test_too_many_parameters_are_an_error():
    f = bellhop.native_callback(library=LIBM, symbol="cbrt", result_type=float)
    with pytest.raises(ValueError, match="too many parameters: this platform supports"):
        f(*map(float, range(40)))


def test_arrays_with_their_lengths(run):
    f = bellhop.native_callback(scale, vector(3))
    np.testing.assert_array_equal(run(f)(2.0, np.arange(3.0)), [0.0, 2.0, 4.0])


@pytest.mark.parametrize("arrays", ["pointer", "shape", "strides"])
def test_forms_of_arrays(arrays):
    sizes = POINTER(c_int64)
    more = {"pointer": [], "shape": [c_int64, sizes], "strides": [c_int64, sizes, sizes]}[arrays]
    seen = []

    @C(c_double, DOUBLES, *more)
    def first(x, *rest):
        seen[:] = [rest[0], *[list(each[:2]) for each in rest[1:]]] if rest else []
        return x[0]

    f = bellhop.native_callback(first, arrays=arrays)
    assert bellhop.qjit(f)(np.full((2, 3), 7.0)) == 7.0
    expected = {"pointer": [], "shape": [2, [2, 3]], "strides": [2, [2, 3], [24, 8]]}
    assert seen == expected[arrays]


def test_several_results_in_a_pytree(run):
    @C(None, DOUBLES, c_int64, DOUBLES, POINTER(c_int64), c_int64)
    def moments(x, n, mean, order, m):
        values = np.ctypeslib.as_array(x, (n,))
        mean[0] = values.mean()
        np.ctypeslib.as_array(order, (m,))[:] = np.argsort(values)

    kind = {"mean": float, "order": jax.ShapeDtypeStruct((3,), np.int64)}
    result = run(bellhop.native_callback(moments, kind))(np.array([3.0, 1.0, 2.0]))
    assert result["mean"] == 2.0
    np.testing.assert_array_equal(result["order"], [1, 2, 0])


def test_complex_values_are_passed_as_addresses(run):
    @C(None, DOUBLES, DOUBLES)
    def conjugate(z, w):
        w[0], w[1] = z[0], -z[1]

    assert run(bellhop.native_callback(conjugate, complex))(1 + 2j) == 1 - 2j


@pytest.mark.parametrize("thread_safe", [False, True])
def test_vmap_is_a_loop_over_rows(run, thread_safe):
    cbrt = bellhop.native_callback(
        library=LIBM, symbol="cbrt", result_type=float, thread_safe=thread_safe
    )
    x = np.arange(6000.0).reshape(2, 3000)
    np.testing.assert_allclose(run(jax.vmap(jax.vmap(cbrt)))(x), np.cbrt(x))
    assert run(jax.vmap(cbrt))(np.zeros(0)).shape == (0,)


def test_nested_vmap_over_different_arguments(run):
    f = bellhop.native_callback(scale, vector(3))
    a, x = np.arange(4.0), np.arange(15.0).reshape(5, 3)
    rows = jax.vmap(jax.vmap(f, (0, None)), (None, 0))
    np.testing.assert_array_equal(run(rows)(a, x), np.einsum("a,bc->bac", a, x))


@pytest.mark.parametrize("keep_subnormals", [False, True])
def test_subnormal_numbers(keep_subnormals):
    scale_by_power = bellhop.native_callback(
        library=LIBM, symbol="ldexp", result_type=float, keep_subnormals=keep_subnormals
    )
    # 2**-1020 is normal, 2**-1070 is not.
    x, exponent = np.full(3, 2.0**-1020), np.int32(-50)
    one = bellhop.qjit(lambda: scale_by_power(x[0], exponent).view(np.int64))()
    many = bellhop.qjit(lambda: jax.vmap(scale_by_power, (0, None))(x, exponent).view(np.int64))()
    expected = np.full(3, 2.0**-1070).view(np.int64) if keep_subnormals else np.zeros(3)
    assert one == expected[0]
    np.testing.assert_array_equal(many, expected)


def test_programs_with_equal_text_call_their_own_functions():
    def make(value):
        constant = bellhop.native_callback(C(c_double)(lambda: value))
        return bellhop.qjit(lambda: constant() + 1.0)

    programs = [make(float(i)) for i in range(3)]
    assert [program() for program in programs] == [1.0, 2.0, 3.0]
    del programs[0]
    programs.append(make(5.0))
    assert [program() for program in programs] == [2.0, 3.0, 6.0]


@pytest.mark.parametrize("rule", ["jvp", "fwd and bwd"])
def test_elementwise_is_differentiated(run, rule):
    power = bellhop.native_callback(library=LIBM, symbol="pow", result_type=float, elementwise=True)
    if rule == "jvp":
        by_base = lambda x, y: y * power(x, y - 1.0)
        by_power = lambda x, y: jnp.log(x) * power(x, y)
        power.jvp(lambda p, t: (power(*p), by_base(*p) * t[0] + by_power(*p) * t[1]))
    else:
        power.fwd(lambda x, y: (power(x, y), (x, y)))
        power.bwd(
            lambda saved, c: (
                c * saved[1] * power(saved[0], saved[1] - 1.0),
                jnp.sum(c * jnp.log(saved[0]) * power(*saved)),
            )
        )
    x = jnp.arange(1.0, 7.0).reshape(2, 3)
    gradient = run(jax.grad(lambda x, y: jnp.sum(power(x, y)), argnums=(0, 1)))(x, 1.5)
    expected = jax.grad(lambda x, y: jnp.sum(x**y), argnums=(0, 1))(x, 1.5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), gradient, expected)


def test_elementwise_broadcasts_like_numpy(run):
    power = bellhop.native_callback(library=LIBM, symbol="pow", result_type=float, elementwise=True)
    x, n = np.arange(1.0, 4.0)[:, None], np.arange(3.0)
    np.testing.assert_allclose(run(power)(x, n), x**n)
    np.testing.assert_allclose(run(power)(x, 2.0), x**2.0)


def test_derivatives_by_rules(run):
    sin, cos = (
        bellhop.native_callback(library=LIBM, symbol=name, result_type=float)
        for name in ("sin", "cos")
    )
    sin.jvp(lambda primals, tangents: (sin(*primals), cos(*primals) * tangents[0]))
    cos.jvp(lambda primals, tangents: (cos(*primals), -sin(*primals) * tangents[0]))
    assert np.isclose(run(jax.grad(sin))(0.3), np.cos(0.3))
    assert np.isclose(run(jax.hessian(sin))(0.3), -np.sin(0.3))
    x = np.arange(3.0)
    np.testing.assert_allclose(run(jax.vmap(jax.grad(sin)))(x), np.cos(x))


def test_without_a_rule_a_derivative_is_an_error():
    f = bellhop.native_callback(library=LIBM, symbol="sin", result_type=float)
    with pytest.raises(bellhop.DifferentiableCompileError, match="native_callback 'sin'"):
        bellhop.qjit(jax.grad(f))(1.0)


def test_transpose_of_a_native_function():
    double = bellhop.native_callback(scale, vector(3))
    double.transpose(lambda a, cotangent: double(a, cotangent), argnums=1)
    bellhop.debug.check_transpose(double, 2.0, np.zeros(3), argnums=1)
    gradient = bellhop.qjit(jax.grad(lambda x: double(2.0, x)[1]))(np.zeros(3))
    np.testing.assert_array_equal(gradient, [0.0, 2.0, 0.0])


def make_recorder(type_):
    """Return a native callback that returns its argument, and the list of all arguments."""
    seen = []

    @C(type_, type_)
    def note(x):
        seen.append(x)
        return x

    return bellhop.native_callback(note, has_side_effect=True), seen


def test_effects_are_made_once_and_in_order():
    f, seen = make_recorder(c_int64)

    @bellhop.qjit
    def program(x):
        f(x)
        bellhop.callback(lambda v: seen.append(int(v)))(x + 1)
        f(x + 2)
        jax.lax.fori_loop(0, 2, lambda i, _: f(x + 3 + i), x)
        return x

    program(np.int64(1))
    assert seen == [1, 2, 3, 4, 5]
    with pytest.raises(TypeError, match="has side effects and gets"):
        f.jvp(lambda primals, tangents: None)


@pytest.mark.parametrize("loop", [True, False], ids=["loop", "no loop"])
def test_a_function_that_returns_nan_is_named_and_effects_are_not_repeated(loop):
    log = bellhop.native_callback(library=LIBM, symbol="log", result_type=float)
    effect, seen = make_recorder(c_double)

    def repeat(f):
        return lambda x: jax.lax.fori_loop(0, 2, lambda _, y: f(y), x) if loop else f(x)

    pure, noted = bellhop.qjit(repeat(log)), bellhop.qjit(repeat(lambda x: log(effect(x))))
    with jax.debug_nans(True):
        for _ in range(2):
            with pytest.raises(FloatingPointError, match="native_callback 'log' .* returned nan"):
                pure(-1.0)
        with pytest.raises(FloatingPointError, match="since its callbacks have effects"):
            noted(-1.0)
    assert seen[0] == -1.0
    assert len(seen) == 1 + loop
    assert np.isnan(pure(-1.0))


def test_equal_pure_calls_are_one():
    seen = []

    @C(c_double, c_double)
    def keep(x):
        seen.append(x)
        return x

    f = bellhop.native_callback(keep)
    assert bellhop.qjit(lambda x: f(x) + f(x))(2.0) == 4.0
    assert seen == [2.0]


def test_runs_in_a_region_on_the_cpu():
    cbrt = bellhop.native_callback(library=LIBM, symbol="cbrt", result_type=float)
    region = bellhop.accelerate(lambda x: 2 * cbrt(x), dev=jax.devices("cpu")[0])
    assert bellhop.qjit(region)(8.0) == 4.0


def test_programs_on_several_threads():
    cbrt = bellhop.qjit(bellhop.native_callback(library=LIBM, symbol="cbrt", result_type=float))
    cbrt(1.0)
    wrong = []

    def call():
        wrong.extend(x for x in range(200) if not np.isclose(cbrt(float(x)), np.cbrt(x)))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_no_python_in_between():
    cbrt = bellhop.native_callback(library=LIBM, symbol="cbrt", result_type=float)
    with bellhop.profile() as profile:
        f = bellhop.qjit(lambda x: jax.lax.fori_loop(0, 5, lambda _, x: cbrt(x), x))
        f(2.0)
    assert [row.calls for row in profile.rows if row.kind == "native_callback"] == [5]
    assert "@bellhop_native" in f.lower(2.0).as_text()
    assert "cbrt" in str(bellhop.draw(f)(2.0))


@NUMBA.mark
@pytest.mark.subprocess  # Numba compiles
def test_cfunc_of_numba(run):
    numba = NUMBA.import_module()
    pointer = numba.types.CPointer(numba.types.float64)

    @numba.cfunc("float64(float64, int64)")
    def power(x, n):
        return x**n

    @numba.cfunc(numba.types.void(pointer, numba.types.int64, pointer, numba.types.int64))
    def reverse(x, n, y, m):
        for i in range(n):
            y[i] = x[n - 1 - i]

    f = bellhop.native_callback(power)
    assert run(lambda x: f(x, 3))(2.0) == 8.0
    np.testing.assert_array_equal(run(jax.vmap(f, (0, None)))(np.arange(3.0), 2), [0.0, 1.0, 4.0])
    flip = bellhop.native_callback(reverse, vector(3))
    np.testing.assert_array_equal(run(flip)(np.arange(3.0)), [2.0, 1.0, 0.0])
    with pytest.raises(TypeError, match="has 2 C parameters, and the call passes 1"):
        f(1.0)


def test_types_must_fit():
    add = bellhop.native_callback(C(c_double, c_double, c_int64)(lambda x, n: x + n))
    assert bellhop.qjit(add)(1, 2) == 3.0  # Python numbers become the C types
    for args, words in [
        ((1.0,), "has 2 C parameters, and the call passes 1"),
        ((1.0, 2, 3), "has 2 C parameters, and the call passes 3"),
        ((1.0, 2.5), "C functions do not convert arguments"),
        ((1j, 2), r"C parameter 0 \(counted from 0\) is float64"),
        ((np.ones(2), 2), "has 2 C parameters, and the call passes 3"),
    ]:
        with pytest.raises(TypeError, match=words):
            add(*args)
    unknown = bellhop.native_callback(library=LIBM, symbol="cbrt", result_type=float)
    with pytest.raises(TypeError, match="is a Python integer, and the types"):
        unknown(8)
    with pytest.raises(TypeError, match="C does not pass by value"):
        unknown(np.float16(8))
    with pytest.raises(TypeError, match="argument 0 is a list, expected"):
        unknown([8.0])
    single = bellhop.native_callback(library=LIBM, symbol="cbrtf", result_type=np.float32)
    with pytest.raises(TypeError, match="is a Python float, and may be"):
        single(8.0)
    assert single(np.float32(8)) == 2.0
    first = bellhop.native_callback(C(c_double, DOUBLES, c_int64)(lambda x, n: x[0]))
    with pytest.raises(TypeError, match="points to float64, and the call passes"):
        first(np.ones(2, int))
    assert first(np.full(2, 1 + 2j)) == 1.0
    declared = bellhop.native_callback(
        library=LIBM, symbol="cbrt", result_type=float, argument_types=[float]
    )
    assert declared(8) == 2.0
    with pytest.raises(
        TypeError, match="argument_types declares 1 argument, and the call passes 2"
    ) as caught:
        declared(8.0, 1.0)
    assert f"(called from {__file__}:" in str(caught.value)
    assert str(caught.value).endswith("Pass an argument for each type.")
    with pytest.raises(TypeError, match="expected arguments by position"):
        declared(x=8.0)


def test_functions_that_cannot_be_called():
    with pytest.raises(OSError, match=rf"called from {__file__}:.* cannot be loaded"):
        bellhop.native_callback(library="libnothing.so", symbol="f", result_type=float)
    with pytest.raises(AttributeError, match=rf"called from {__file__}:.* has no symbol 'cubic'"):
        bellhop.native_callback(library=LIBM, symbol="cubic", result_type=float)
    with pytest.raises(TypeError, match="expected a ctypes function"):
        bellhop.native_callback(len, float)
    with pytest.raises(TypeError, match="expected either a function or"):
        bellhop.native_callback(result_type=float)
    with pytest.raises(TypeError, match="has no result type"):
        bellhop.native_callback(library=LIBM, symbol="cbrt")
    with pytest.raises(TypeError, match="returns float64 in C, but result_type is int64"):
        bellhop.native_callback(C(c_double)(lambda: 0.0), int)
    with pytest.raises(ValueError, match="expected one of 'pointer'"):
        bellhop.native_callback(library=LIBM, symbol="cbrt", result_type=float, arrays="size")
    with pytest.raises(TypeError, match="elementwise=True, and the result"):
        bellhop.native_callback(scale, vector(3), elementwise=True)
    with pytest.raises(TypeError, match="returns_value=True, and the result"):
        bellhop.native_callback(scale, vector(3), returns_value=True)
    with pytest.raises(TypeError, match="set the argtypes of a ctypes function"):
        bellhop.native_callback(scale, vector(3), argument_types=[float])
    with pytest.raises(TypeError, match="a null pointer"):
        bellhop.native_callback(C(c_double)(0), float)
    with pytest.raises(TypeError, match="called by compiled programs"):
        bellhop.native_callback(scale, vector(3)).__wrapped__()


@pytest.mark.subprocess
def test_header_describes_the_signature(tmp_path):
    source = tmp_path / "mean.c"
    source.write_text(
        """
        #include <bellhop/native.h>
        BELLHOP_EXPORT double mean(BELLHOP_ARRAY(const double, x)) {
          double sum = 0;
          for (int64_t i = 0; i < x_length; ++i) sum += x[i];
          return sum / (double)x_length;
        }
        """
    )
    library = tmp_path / "mean.so"
    include = f"-I{bellhop_runtime.include_dir()}"
    subprocess.run(["cc", "-shared", "-fPIC", include, "-o", library, source], check=True)
    mean = bellhop.native_callback(library=str(library), symbol="mean", result_type=float)
    assert bellhop.qjit(mean)(jnp.arange(5.0)) == 2.0


@pytest.mark.subprocess
def test_handler_of_xla(tmp_path):
    source = tmp_path / "twice.cc"
    source.write_text(
        """
        #include "xla/ffi/api/ffi.h"
        namespace ffi = xla::ffi;
        using Vector = ffi::Buffer<ffi::F64>;
        ffi::Error twice(Vector x, ffi::Result<Vector> y) {
          for (size_t i = 0; i < x.element_count(); ++i) {
            y->typed_data()[i] = 2 * x.typed_data()[i];
          }
          return ffi::Error::Success();
        }
        XLA_FFI_DEFINE_HANDLER_SYMBOL(Twice, twice, ffi::Ffi::Bind().Arg<Vector>().Ret<Vector>());
        """
    )
    library = tmp_path / "twice.so"
    include = f"-I{jax.ffi.include_dir()}"
    command = ["c++", "-std=c++17", "-w", "-shared", "-fPIC", include, "-o", library, source]
    subprocess.run(command, check=True)
    handler = jax.ffi.pycapsule(ctypes.CDLL(str(library)).Twice)
    twice = bellhop.native_callback(handler, vector(3)).transpose(symmetric=True)
    x = np.arange(3.0)
    for wrap in (jax.jit, bellhop.qjit):
        np.testing.assert_array_equal(wrap(twice)(x), 2 * x)
        np.testing.assert_array_equal(wrap(jax.vmap(twice))(np.stack([x, x])), [2 * x, 2 * x])
        np.testing.assert_array_equal(wrap(jax.grad(lambda x: twice(x)[1]))(x), [0.0, 2.0, 0.0])
    with pytest.raises(TypeError, match="of an FFI handler has no result"):
        bellhop.native_callback(handler)


def test_saved_files_name_library_and_symbol(tmp_path):
    cbrt = bellhop.native_callback(library=LIBM, symbol="cbrt", result_type=float)
    f = bellhop.qjit(jax.vmap(cbrt))
    x = np.array([1.0, 8.0])
    f(x)
    path = tmp_path / "roots.bellhop"
    f.save(path)
    with pytest.raises(bellhop.CompileError, match="which is supported in trusted files only"):
        bellhop.load(path)
    np.testing.assert_array_equal(bellhop.load(path, trust=True)(x), [1.0, 2.0])
    nameless = bellhop.qjit(bellhop.native_callback(C(c_double)(lambda: 1.0)))
    nameless()
    with pytest.raises(bellhop.CompileError, match="Put the function into a shared library"):
        nameless.save(path)
