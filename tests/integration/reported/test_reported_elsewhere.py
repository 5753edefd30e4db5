"""What users reported of Catalyst, PennyLane and others, as tests named for the threads.

Reports that other tests hold:

* PennyLaneAI/catalyst#540, a registry that keeps functions: ``test_qjit_lifetime.py``, and
  ``make soak``;
* PennyLaneAI/catalyst#2760, compiled again in each process: ``test_cache.py``;
* PennyLaneAI/catalyst#407, the order of prints: also ``test_program_order.py``.
"""

import threading
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.needs import PYTORCH
from tests.patience import PATIENCE, run_at_once

import bellhop


def test_catalyst_849_a_wrong_annotation_is_an_error_and_no_memory_is_touched():
    results = {
        "too long": np.arange(5.0),
        "too short": np.arange(1.0),
        "other dtype": np.arange(3, dtype=np.float32),
        "scalar": 1.0,
        "object": object(),
    }
    shape = jax.ShapeDtypeStruct((3,), np.float64)
    for name, value in results.items():

        def wrong(x, value=value) -> shape:
            return value

        f = bellhop.qjit(lambda x, g=wrong: bellhop.pure_callback(g)(x) + jnp.arange(3.0))
        for _ in range(2):
            with pytest.raises(TypeError, match=r"pure_callback 'wrong' returned .*float64\[3\]"):
                f(1.0)
        del name


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.complex64])
def test_catalyst_916_results_of_other_widths(dtype):
    shape = jax.ShapeDtypeStruct((3,), dtype)
    f = bellhop.qjit(lambda x: bellhop.pure_callback(lambda v: (2 * v).astype(dtype), shape)(x))
    result = f(np.arange(3).astype(dtype))
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, 2 * np.arange(3))


def test_catalyst_1451_a_failure_does_not_poison_later_calls_or_the_exit(run_script):
    out = run_script(
        """
        import bellhop, pennylane as qml
        @bellhop.qjit
        @qml.qnode(qml.device("lightning.qubit", wires=1))
        def circuit(x):
            def check(v) -> float:
                if v > 1:
                    raise ValueError("too large")
                return float(v)
            qml.RX(bellhop.pure_callback(check)(x), wires=0)
            return qml.expval(qml.PauliZ(0))
        @bellhop.qjit
        def other(x):
            return x + 1
        for x in (0.0, 2.0, 0.0, 3.0, 0.0):
            try:
                print(float(circuit(x)), float(other(x)))
            except ValueError as error:
                print(error)
        """
    )
    assert out.splitlines() == ["1.0 1.0", "too large", "1.0 1.0", "too large", "1.0 1.0"]


def test_lightning_1055_errors_of_the_users_keep_their_type():
    class Mine(Exception):
        pass

    def fail(x) -> float:
        raise Mine(x.item())

    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(bellhop.pure_callback(fail)(x), wires=0)
        return qml.expval(qml.PauliZ(0))

    for _ in range(2):
        with pytest.raises(Mine) as caught:
            circuit(0.5)
        assert caught.value.args == (0.5,)


@pytest.mark.parametrize("form", [bellhop.qjit, jax.jit], ids=["qjit", "jit"])
def test_catalyst_852_the_vjp_is_made_in_fwd(form):
    @bellhop.pure_callback
    def product(x, y) -> jax.ShapeDtypeStruct((2,), np.float64):
        return np.sin(x) * y

    product.fwd(lambda x, y: (product(x, y), jax.vjp(lambda x, y: jnp.sin(x) * y, x, y)[1]))
    product.bwd(lambda vjp, cotangent: vjp(cotangent))
    # At two shapes in one program; the second is a scalar one.
    scalar = bellhop.pure_callback(lambda x: np.cos(x), float)
    scalar.fwd(lambda x: (scalar(x), jax.vjp(jnp.cos, x)[1]))
    scalar.bwd(lambda vjp, cotangent: vjp(cotangent))

    def f(x, y):
        return jnp.sum(product(x, y) ** 2) * scalar(y)

    x, y = jnp.array([0.3, 0.7]), 1.2
    observed = form(jax.grad(f, argnums=(0, 1)))(x, y)
    step = 1e-6

    def plain(x, y):
        return np.sum((np.sin(x) * y) ** 2) * np.cos(y)

    by_x = [(plain(x + d, y) - plain(x - d, y)) / (2 * step) for d in step * np.eye(2)]
    by_y = (plain(x, y + step) - plain(x, y - step)) / (2 * step)
    np.testing.assert_allclose(observed[0], by_x, rtol=1e-7)
    np.testing.assert_allclose(observed[1], by_y, rtol=1e-7)


@pytest.mark.parametrize("dev", [None, "cpu:1"])
def test_catalyst_1086_accelerated_functions_in_one_another_have_gradients(dev):
    options = {} if dev is None else {"dev": dev}

    @bellhop.accelerate(**options)
    def inner(x):
        return jnp.sin(x) ** 2

    @bellhop.accelerate(**options)
    def outer(x):
        return inner(x) * x

    f = bellhop.qjit(bellhop.grad(lambda x: outer(x) + inner(x)))
    x = 0.7
    slope = 2 * np.sin(x) * np.cos(x) * (x + 1) + np.sin(x) ** 2
    np.testing.assert_allclose(f(x), slope, rtol=1e-12)


def test_catalyst_407_prints_and_callbacks_keep_program_order(capsys):
    @bellhop.qjit
    def f(x):
        bellhop.debug.print("first {}", x)
        bellhop.debug.callback(lambda v: print("second", float(v)))(x)

        @bellhop.for_loop(0, 3, 1)
        def loop(i, x):
            bellhop.debug.print("iteration {}", i)
            return bellhop.cond(i == 1, lambda: (bellhop.debug.print("one"), x)[1], lambda: x)()

        x = loop(x)
        bellhop.debug.print("last")
        return x

    f(1.0)
    assert capsys.readouterr().out.splitlines() == [
        "first 1.0", "second 1.0", "iteration 0", "iteration 1", "one", "iteration 2", "last",
    ]  # fmt: skip


def test_pennylane_3452_a_circuit_with_a_callback_is_batched_in_one_call():
    shapes = []

    @bellhop.pure_callback(vmap_method="expand_dims")
    def angle(x) -> float:
        shapes.append(x.shape)
        return np.sqrt(x)

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(theta):
        qml.RX(theta, wires=0)
        return qml.expval(qml.PauliZ(0))

    xs = jnp.arange(5.0)
    f = bellhop.qjit(lambda xs: jax.vmap(circuit)(jax.vmap(angle)(xs)))
    np.testing.assert_allclose(f(xs), np.cos(np.sqrt(xs)), atol=1e-12)
    assert shapes == [(5,)]


def test_catalyst_644_programs_inside_callbacks_to_depth_three():
    device = qml.device("lightning.qubit", wires=1)

    @bellhop.qjit
    @qml.qnode(device)
    def third(x):
        qml.RX(x, wires=0)
        return qml.expval(qml.PauliZ(0))

    second = bellhop.qjit(lambda x: 2 * bellhop.pure_callback(lambda v: third(v), float)(x))

    @bellhop.qjit
    @qml.qnode(device)
    def first(x):
        # A circuit runs inside a callback while this one is open.
        qml.RX(bellhop.pure_callback(lambda v: second(v), float)(x), wires=0)
        return qml.expval(qml.PauliZ(0))

    for x in (0.3, 0.8):
        np.testing.assert_allclose(first(x), np.cos(2 * np.cos(x)), atol=1e-12)


@PYTORCH.mark
def test_pytorch_151328_a_compiled_function_of_another_framework_inside_a_callback():
    import torch

    @bellhop.pure_callback
    def layer(x) -> jax.ShapeDtypeStruct((1000,), np.float64):
        return torch.tanh(torch.from_numpy(np.array(x))).numpy()

    f = bellhop.qjit(lambda x: layer(x).sum())
    x = np.linspace(-1, 1, 1000)
    for _ in range(3):
        np.testing.assert_allclose(f(x + 1), np.tanh(x + 1).sum())


def test_catalyst_1912_gradient_over_vmap_is_that_of_each_element():
    @jax.vmap
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x, data):
        qml.RX(x, wires=0)
        qml.RX(data, wires=0)
        return qml.expval(qml.PauliZ(0))

    shift = bellhop.pure_callback(lambda v: 2 * v, jax.ShapeDtypeStruct((3,), np.float64))
    shift.fwd(lambda v: (shift(v), None))
    shift.bwd(lambda _, cotangent: 2 * cotangent)

    xs, data = jnp.array([0.1, 0.2, 0.3]), jnp.array([0.4, 0.5, 0.6])
    f = bellhop.qjit(bellhop.grad(lambda x, data: jnp.sum(circuit(x, data))))
    np.testing.assert_allclose(f(xs, data), -np.sin(xs + data), atol=1e-12)
    g = bellhop.qjit(bellhop.grad(lambda x, data: jnp.sum(circuit(shift(x), data))))
    np.testing.assert_allclose(g(xs, data), -2 * np.sin(2 * xs + data), atol=1e-12)
    jacobian = bellhop.qjit(bellhop.jacobian(lambda x: circuit(x, data)))
    np.testing.assert_allclose(jacobian(xs), np.diag(-np.sin(xs + data)), atol=1e-12)


def test_catalyst_885_eight_threads_trace_compile_and_call_at_once():
    # Nobody passes before all eight are in the same place: a lock around it would be seen.
    # Circuits are traced one after another, in PennyLane's queue.
    tracing, calling = (threading.Barrier(8, timeout=PATIENCE) for _ in range(2))
    results = {}

    def work(number):
        def callback(x):
            calling.wait()
            return x * number

        @qml.qnode(qml.device("lightning.qubit", wires=1))
        def circuit(x):
            qml.RX(bellhop.pure_callback(callback, float)(x), wires=0)
            return qml.expval(qml.PauliZ(0))

        @bellhop.qjit
        def f(x):
            tracing.wait()
            return circuit(x)

        results[number] = [float(f(0.5)) for _ in range(3)]

    run_at_once(*(partial(work, number) for number in range(8)))
    for number in range(8):
        np.testing.assert_allclose(results[number], np.cos(0.5 * number), atol=1e-12)


def test_catalyst_885_eight_threads_make_the_same_program():
    results = {}

    def work(number):
        double = bellhop.pure_callback(lambda x: 2 * x, float)
        results[number] = [float(bellhop.qjit(lambda x: double(x) + 1)(0.5)) for _ in range(3)]

    run_at_once(*(partial(work, number) for number in range(8)))
    assert results == {number: [2.0] * 3 for number in range(8)}


def test_mpi4jax_294_only_the_typed_interface_is_used(recwarn):
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        bellhop.debug.print("{}", x)
        qml.RX(bellhop.pure_callback(np.sin, float)(x), wires=0)
        return qml.expval(qml.PauliZ(0))

    circuit(0.5)
    text = circuit.lower(0.5).as_text()
    calls = [line for line in text.splitlines() if "custom_call @bellhop_" in line]
    assert len(calls) >= 5
    # Version 4 is XLA's typed foreign-function interface.
    assert all("api_version = 4" in line for line in calls)
    assert [str(w.message) for w in recwarn if "API" in str(w.message)] == []
