"""accelerate: functions on a device of choice; a second CPU device stands in for a GPU."""

import functools
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop

DEVICES = ["cpu:0", "cpu:1"]
MATRIX = np.array([[0.1, 0.2], [0.3, 0.4]])


def on(dev, function=None, **kwargs):
    return bellhop.accelerate(function, dev=dev, **kwargs)


def test_value_and_gradient(dev):
    def loss(cosines):
        return lambda x: jnp.sum(cosines(jnp.sin(x)) ** 2)

    def cosines(x):
        return jnp.cos(x @ x.T)

    accelerated, reference = loss(on(dev, cosines)), loss(cosines)
    np.testing.assert_allclose(bellhop.qjit(accelerated)(MATRIX), reference(MATRIX))
    observed = bellhop.qjit(bellhop.grad(accelerated))(MATRIX)
    np.testing.assert_allclose(observed, jax.grad(reference)(MATRIX), rtol=1e-10)


def test_on_the_programs_own_device_it_becomes_part_of_the_program():
    f = bellhop.qjit(lambda x: on("cpu:0", jnp.sin)(x) + 1)
    f(1.0)
    assert "accelerate_cpu_0__sin" in f.mlir
    assert "accelerate" not in f.mlir_opt
    assert "callback" not in f.mlir_opt
    assert "custom_call" not in f.mlir_opt


def test_on_another_device_it_is_a_region_of_that_device(own_directory):
    f = bellhop.qjit(lambda x: on("cpu:1", jnp.sin)(x) + 1, keep_intermediate=True)
    assert f(1.0) == np.sin(1.0) + 1
    assert '"callback.accelerate"' in f.mlir_opt
    assert 'device = "cpu:1"' in f.mlir_opt
    stage = bellhop.debug.get_compilation_stage(f, "convert-accelerate-to-runtime")
    assert 'bellhop.device = "cpu:1"' in stage


def test_runs_on_its_device(monkeypatch):
    from bellhop.compiler.regions import Region

    devices = []
    original = Region.launch

    def launch(self, arguments):
        devices.append((self.name, self.target, self._handle.devices()))
        return original(self, arguments)

    monkeypatch.setattr(Region, "launch", launch)
    bellhop.qjit(lambda x: on("cpu:1", jnp.cos)(on("cpu:0", jnp.sin)(x)))(1.0)
    device = jax.devices("cpu")[1]
    assert devices == [("cos", device, {device})]


def test_eager_call_runs_on_its_device(dev):
    (device,) = on(dev, jnp.sin)(jnp.ones(3)).devices()
    assert f"{device.platform}:{device.id}" == dev


@pytest.mark.parametrize(
    ("dev", "number"),
    [
        ("cpu", 0),
        ("cpu:0", 0),
        ("cpu:1", 1),
        (jax.devices("cpu")[0], 0),
        (jax.devices("cpu")[1], 1),
    ],
    ids=repr,
)
def test_names_of_devices(dev, number):
    f = bellhop.qjit(lambda x: on(dev, jnp.sin)(x))
    assert f(1.0) == np.sin(1.0)
    assert f"accelerate_cpu_{number}__sin" in f.mlir


def test_default_device_is_asked_when_the_program_is_compiled():
    accelerated = bellhop.accelerate(jnp.sin)
    f = bellhop.qjit(lambda x: accelerated(x))
    f(1.0)
    default = jax.devices()[0]
    assert f"accelerate_{default.platform}_{default.id}" in f.mlir
    with jax.default_device(jax.devices("cpu")[1]):
        f(jnp.float32(1.0))
    assert "cpu_1" in f.mlir


@pytest.mark.parametrize("dev", ["cpu:7", "tpu:0", "nonsense", "cpu:x", "cpu:", "cpu: 0", ""])
def test_unknown_device_is_an_error_that_lists_those_there_are(dev):
    where = rf"accelerate of '<lambda>' \({__file__}:\d+\): "
    with pytest.raises(ValueError, match=where + "there is no device '.*'; there .*cpu:0, cpu:1"):
        on(dev, lambda x: x)


@pytest.mark.parametrize("dev", [3, 1.5, jnp.sin, [3], []])
def test_what_is_no_device_is_an_error(dev):
    with pytest.raises(
        TypeError, match="accelerate of 'sin' .* takes None, a jax.Device, a device name"
    ):
        on(dev, jnp.sin)


@pytest.mark.parametrize("function", [3, "sin", int, jax.devices()[0]], ids=repr)
def test_what_is_no_function_is_an_error(function):
    with pytest.raises(TypeError, match="accelerate takes a function"):
        bellhop.accelerate(function)


def test_decorator_forms():
    @bellhop.accelerate
    def first(x):
        """What it does."""
        return 2 * x

    @bellhop.accelerate(dev="cpu:1")
    def second(x):
        return 2 * x

    assert (first.__name__, first.__doc__) == ("first", "What it does.")
    assert bellhop.qjit(lambda x: first(x) + second(x))(3.0) == 12.0


TRANSFORMATIONS = {
    "grad": jax.grad,
    "value_and_grad": jax.value_and_grad,
    "hessian": jax.hessian,
    "jacfwd": jax.jacfwd,
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (2 * x,)),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f)),
    "vmap": lambda f: lambda x: jax.vmap(f)(jnp.stack([x, 2 * x])),
    "vmap of grad": lambda f: lambda x: jax.vmap(jax.grad(f))(jnp.stack([x, 2 * x])),
    "grad of vmap": lambda f: jax.grad(lambda x: jnp.sum(jax.vmap(f)(jnp.stack([x, x**2])))),
    "scan": lambda f: (
        lambda x: jax.lax.scan(lambda c, v: (f(v) + c, f(x * c)), 0.0, jnp.stack([x, x]))
    ),
    "grad of scan": lambda f: jax.grad(
        lambda x: jax.lax.scan(lambda c, v: (f(v * c), None), 1.0, jnp.stack([x, x]))[0]
    ),
    "while": lambda f: lambda x: jax.lax.while_loop(lambda v: f(v) < 9, lambda v: v + 1, x),
    "cond": lambda f: lambda x: jax.lax.cond(x[0] > 0, f, lambda v: 0.0, x),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
}


@pytest.mark.parametrize("transform", TRANSFORMATIONS.values(), ids=TRANSFORMATIONS)
def test_under_transformations(dev, transform):
    def f(x):
        return jnp.sum(jnp.sin(x) * x**2)

    x = np.array([0.5, 1.5, -0.5])
    observed = bellhop.qjit(transform(on(dev, f)))(x)
    expected = jax.jit(transform(f))(x)
    assert jax.tree.structure(observed) == jax.tree.structure(expected)
    jax.tree.map(lambda o, e: np.testing.assert_allclose(o, e, rtol=1e-10), observed, expected)


@pytest.mark.parametrize("inner", DEVICES)
def test_nested(dev, inner):
    g = on(inner, lambda x: jnp.sin(x) * 2)
    f = on(dev, lambda x: g(x) + g(x + 1))
    expected = 2 * (np.sin(0.3) + np.sin(1.3))
    np.testing.assert_allclose(bellhop.qjit(lambda x: f(x))(0.3), expected, rtol=1e-12)
    slope = 2 * (np.cos(0.3) + np.cos(1.3))
    np.testing.assert_allclose(bellhop.qjit(jax.grad(f))(0.3), slope, rtol=1e-12)


def test_methods_partials_and_callable_objects(dev):
    class Model:
        scale = 3.0

        def method(self, x):
            return self.scale * x

        decorated = bellhop.accelerate(method, dev=dev)

        def __call__(self, x):
            return 5.0 * x

    model = Model()
    functions = {
        3.0: on(dev, model.method),
        5.0: on(dev, model),
        7.0: on(dev, functools.partial(lambda a, x: a * x, 7.0)),
        9.0: on(dev, jax.tree_util.Partial(lambda a, x: a * x, 9.0)),
    }
    for factor, function in functions.items():
        assert bellhop.qjit(lambda x, f=function: f(x))(2.0) == 2 * factor


def test_two_functions_of_one_name_stay_apart(dev):
    def make(factor):
        def f(x):
            return factor * x

        return on(dev, f)

    assert bellhop.qjit(lambda x: make(2.0)(x) + make(3.0)(x))(1.0) == 5.0


def test_captured_values_and_outer_tracers(dev):
    constant = np.arange(3.0)
    f = bellhop.qjit(lambda x: on(dev, lambda v: v + constant + x)(2 * x))
    np.testing.assert_array_equal(f(1.0), constant + 3)


def test_function_that_jax_cannot_trace_is_named(dev):
    def not_jittable(x):
        return float(x) + 1 if x > 0 else x

    for form in (bellhop.qjit, jax.jit):
        with pytest.raises(bellhop.CompileError) as caught:
            form(lambda x: on(dev, not_jittable)(x))(1.0)
        message = str(caught.value)
        assert "accelerate of 'not_jittable' (" in message
        assert f"{__file__}:" in message
        assert "cannot be traced by jax.jit" in message
        assert "pure_callback" in message
        assert isinstance(caught.value.__cause__, jax.errors.TracerBoolConversionError)


def test_numpy_on_a_tracer_is_named(dev):
    def with_numpy(x):
        return np.linalg.inv(x)

    with pytest.raises(bellhop.CompileError, match="accelerate of 'with_numpy'"):
        bellhop.qjit(lambda x: on(dev, with_numpy)(x))(MATRIX)


def test_result_that_is_no_array_is_named(dev):
    def words(x):
        return "text"

    with pytest.raises(bellhop.CompileError, match="accelerate of 'words'"):
        bellhop.qjit(lambda x: on(dev, words)(x))(1.0)


def test_the_users_own_exception_is_untouched(dev):
    def broken(x):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        bellhop.qjit(lambda x: on(dev, broken)(x))(1.0)


def test_pure_callback_inside(dev):
    double = bellhop.pure_callback(lambda x: 2 * x, float)
    f = bellhop.qjit(lambda x: on(dev, lambda v: double(v) + double(v + 1))(x))
    for _ in range(2):
        assert f(1.0) == 6.0


def test_exception_of_a_callback_inside(dev):
    exception = LookupError("inside")

    def callback(x) -> float:
        raise exception

    inner = bellhop.pure_callback(callback)
    f = bellhop.qjit(lambda x: on(dev, lambda v: inner(v) + 1)(x))
    for _ in range(3):
        with pytest.raises(LookupError) as caught:
            f(1.0)
        assert caught.value is exception
        assert "'callback'" in caught.value.__notes__[0]
        assert caught.value.__context__ is None
    exception.__traceback__ = None


def test_callback_inside_that_calls_the_program(dev):
    def countdown(n) -> float:
        return 0.0 if n < 1 else 1.0 + float(f(n - 1))

    inner = bellhop.pure_callback(countdown)
    f = bellhop.qjit(lambda n: on(dev, lambda v: inner(v))(n))
    if dev.startswith("gpu"):
        with pytest.raises(
            RuntimeError, match="which waits for the callback that calls the region"
        ):
            f(4.0)
        assert f(0.0) == 0.0
        return
    assert f(4.0) == 4.0
    assert f(3.0) == 3.0


def test_effects_inside_a_region_of_the_programs_device(capsys):
    f = bellhop.qjit(lambda x: on("cpu:0", lambda v: (bellhop.debug.print("{}", v), v)[1])(x))
    assert f(1.5) == 1.5
    assert capsys.readouterr().out == "1.5\n"


def test_effects_inside_a_region_elsewhere_keep_the_order_of_the_program(capsys):
    def noisy(x):
        bellhop.debug.print("in {}", x)
        bellhop.debug.print("still in {}", x)
        return x + 1

    @bellhop.qjit
    def f(x):
        for _ in range(2):
            bellhop.debug.print("before {}", x)
            x = on("cpu:1", noisy)(x)
        bellhop.debug.print("after {}", x)
        return x

    assert f(1.0) == 3.0
    expected = "before 1.0\nin 1.0\nstill in 1.0\nbefore 2.0\nin 2.0\nstill in 2.0\nafter 3.0\n"
    assert capsys.readouterr().out == expected


def test_effects_alone_inside_a_region_elsewhere(capsys):
    f = bellhop.qjit(lambda x: on("cpu:1", lambda v: bellhop.debug.print("{}", v))(x))
    assert f(1.5) is None
    assert capsys.readouterr().out == "1.5\n"


def test_dead_callback_before_a_region(dev):
    unused = bellhop.pure_callback(lambda x, y: 1 / 0, float)

    @bellhop.qjit
    def f(x):
        unused(x, x)
        return on(dev, jnp.sin)(x)

    assert f(1.0) == np.sin(1.0)


class CompilationCounter(logging.Handler):
    def __init__(self):
        super().__init__()
        self.names = []

    def emit(self, record):
        if "Compiling" in record.getMessage():
            self.names.append(record.getMessage())


@pytest.fixture
def compilations():
    handler = CompilationCounter()
    logger = logging.getLogger("jax._src.interpreters.pxla")
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    yield handler.names
    logger.removeHandler(handler)
    logger.setLevel(level)
    logger.propagate = propagate


def test_regions_are_compiled_with_the_program_and_never_later(dev, compilations):
    started = []

    def begin(x) -> float:
        started.append(len(compilations))
        return float(x)

    @bellhop.qjit
    def f(x):
        x = bellhop.pure_callback(begin)(x)
        return on(dev, lambda v: jnp.linalg.det(v * jnp.eye(3)))(x)

    f(2.0)
    assert started[0] > 0, "the counter must see compilations"
    assert started[0] == len(compilations), "compiled while the program ran"
    for value in (3.0, 4.0):
        np.testing.assert_allclose(f(value), value**3)
    assert len(compilations) == started[0]


def test_static_values_by_partial(dev):
    f = on(dev, functools.partial(lambda n, x: sum(x * i for i in range(n)), 4))
    assert bellhop.qjit(lambda x: f(x))(1.0) == 6.0


def test_under_plain_jit_it_runs_where_that_program_runs():
    f = jax.jit(lambda x: on("cpu:1", jnp.sin)(x) + 1)
    assert f(1.0) == np.sin(1.0) + 1


def test_docstring_example():
    @bellhop.qjit
    @bellhop.grad
    def f(x):
        return jnp.sum(bellhop.accelerate(jax.scipy.linalg.expm)(jnp.sin(x)) ** 2)

    expected = [[2.80120452, 1.67518663], [1.61605839, 4.42856163]]
    np.testing.assert_allclose(f(MATRIX), expected, rtol=1e-8)
