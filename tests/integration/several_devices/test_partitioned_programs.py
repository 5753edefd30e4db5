"""Programs that XLA partitions over two devices: each call once, with whole arrays."""

from __future__ import annotations

import functools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from tests.patience import PATIENCE, run_at_once

import bellhop

MESH = Mesh(jax.devices("cpu")[:2], ("x",))
HALVES = NamedSharding(MESH, PartitionSpec("x"))


@pytest.fixture
def halves():
    return jax.device_put(jnp.arange(8.0), HALVES)


@pytest.fixture
def seen():
    return []


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def recording(seen, function=lambda x: x):
    def call(x):
        assert isinstance(x, np.ndarray)
        seen.append(np.array(x))
        return function(x)

    return call


def call_of(flavour, seen):
    """A function of one array that calls Python once and returns the array times two."""

    def run(x):
        if flavour == "pure":
            return bellhop.pure_callback(recording(seen, lambda x: 2 * x), like(x))(x)
        if flavour in ("io", "ordered"):
            ordered = flavour == "ordered"
            call = recording(seen, lambda x: 2 * x)
            return bellhop.io_callback(call, like(x), ordered=ordered)(x)
        if flavour == "buffer":

            def write(context, out, x):
                seen.append(np.array(x))
                np.multiply(x, 2, out=np.asarray(out))

            return bellhop.buffer_callback(write, like(x))(x)
        if flavour == "tap":
            bellhop.tap(recording(seen), x)
        else:
            bellhop.debug.callback(recording(seen))(x)
        return 2 * x

    return run


FLAVOURS = ["pure", "io", "ordered", "buffer", "debug", "tap"]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_each_call_is_made_once_with_the_whole_array(halves, seen, flavour):
    call = call_of(flavour, seen)
    f = jax.jit(lambda x: jnp.sin(call(jnp.cos(x))).sum())
    for iteration in range(1, 4):
        observed = f(halves)
        bellhop.barrier_wait()
        np.testing.assert_allclose(observed, np.sin(2 * np.cos(np.arange(8.0))).sum())
        assert len(seen) == iteration
        np.testing.assert_allclose(seen[-1], np.cos(np.arange(8.0)))


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_calls_in_a_loop_keep_their_number(halves, seen, flavour):
    call = call_of(flavour, seen)

    @jax.jit
    def f(x):
        return jax.lax.fori_loop(0, 3, lambda _, x: call(x), x)

    np.testing.assert_array_equal(f(halves), 8 * np.arange(8.0))
    bellhop.barrier_wait()
    assert [array.tolist() for array in seen] == [
        [2.0**iteration * i for i in range(8)] for iteration in range(3)
    ]


@pytest.mark.parametrize("loop", [False, True])
def test_partitioned_ones_are_called_by_each_device_with_its_part(halves, seen, loop, capsys):
    def report(x):
        bellhop.debug.callback(recording(seen), partitioned=True)(x)
        bellhop.debug.print(partitioned=True)("x = {}", x)

    @jax.jit
    def f(x):
        x = 2 * x
        if loop:
            jax.lax.fori_loop(0, 2, lambda _, x: (report(x), x)[1], x)
        else:
            report(x)
        return x

    f(halves)
    jax.effects_barrier()
    parts = [[0.0, 2, 4, 6], [8.0, 10, 12, 14]] * (1 + loop)
    assert sorted(part.tolist() for part in seen) == sorted(parts)
    lines = [f"x = {np.array(part)}" for part in parts]
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(lines)


def test_what_a_partitioned_one_raises_is_the_same_object(halves):
    error = KeyError("no such thing")

    def fail(x):
        if x[0]:
            raise error

    f = jax.jit(lambda x: (bellhop.debug.callback(fail, x, partitioned=True), 2 * x)[1])
    with pytest.raises(KeyError) as raised:
        jax.block_until_ready(f(halves))
    assert raised.value is error


def test_the_result_may_be_partitioned_and_arguments_still_on_their_way(seen):
    call = call_of("pure", seen)
    for _ in range(3):
        y = jax.jit(call, in_shardings=HALVES, out_shardings=HALVES)(np.arange(8.0))
        assert y.sharding == HALVES
        np.testing.assert_array_equal(y, 2 * np.arange(8.0))
    assert [array.shape for array in seen] == [(8,)] * 3


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "bfloat16", "complex128"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 4)])
def test_types_and_shapes(dtype, shape):
    x = jnp.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    call = bellhop.pure_callback(lambda x: x, like(x))
    f = jax.jit(call, in_shardings=NamedSharding(MESH, PartitionSpec()))
    np.testing.assert_array_equal(f(x), x)
    assert f(x).dtype == x.dtype


def test_signs_of_zeros_and_nans_get_to_all_devices():
    special = np.array([-0.0, 0.0, np.nan, -np.inf])
    call = bellhop.pure_callback(lambda x: special, like(special))
    f = jax.jit(call, in_shardings=HALVES, out_shardings=HALVES)
    observed = np.asarray(f(np.zeros(4)))
    np.testing.assert_array_equal(observed, special)
    assert np.signbit(observed).tolist() == np.signbit(special).tolist()


@pytest.mark.parametrize("flavour", ["pure", "io", "ordered", "buffer", "debug"])
def test_an_exception_is_the_callers_and_later_calls_are_right(halves, flavour):
    """Devices would wait for the one that failed, and XLA would end the process."""
    fails = True
    error = KeyError("mine")

    def work(x):
        if fails:
            raise error
        return 2 * x

    if flavour == "buffer":

        def write(context, out, x):
            np.asarray(out)[...] = work(np.asarray(x))

        call = bellhop.buffer_callback(write, like(halves))
    elif flavour == "debug":

        def call(x):
            bellhop.debug.callback(lambda x: work(x) is None)(x)
            return 2 * x

    elif flavour == "pure":
        call = bellhop.pure_callback(work, like(halves))
    else:
        call = bellhop.io_callback(work, like(halves), ordered=flavour == "ordered")
    f = jax.jit(lambda x: call(x).sum())
    for _ in range(3):
        with pytest.raises(KeyError) as caught:
            f(halves).block_until_ready()
        assert caught.value is error
    fails = False
    assert f(halves) == 56.0


def test_a_wrong_result_is_an_error_by_name(halves):
    call = bellhop.pure_callback(lambda x: x[:3], like(halves))
    with pytest.raises(TypeError, match=r"returned float64\[3\], declared float64\[8\]"):
        jax.jit(call)(halves).block_until_ready()


def test_derivatives_and_vmap(halves, seen):
    @bellhop.pure_callback
    def sine(x) -> float:
        seen.append(x.shape)
        return np.sin(x)

    @bellhop.pure_callback
    def cosine(x) -> float:
        return np.cos(x)

    sine.fwd(lambda x: (sine(x), x))
    sine.bwd(lambda x, cotangent: (cosine(x) * cotangent,))
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(sine)))(halves)
    np.testing.assert_allclose(values, np.sin(np.arange(8.0)))
    np.testing.assert_allclose(slopes, np.cos(np.arange(8.0)))
    assert len(seen) == 8


def test_circuits(halves):
    device = qml.device("lightning.qubit", wires=2)

    @qml.qnode(device)
    def circuit(x):
        qml.RX(x, wires=0)
        qml.CNOT([0, 1])
        return qml.expval(qml.Z(1))

    compiled = bellhop.qjit(circuit)
    f = jax.jit(lambda x: jax.vmap(compiled)(x) + jax.vmap(jax.grad(compiled))(x))
    x = np.arange(8.0)
    np.testing.assert_allclose(f(halves), np.cos(x) - np.sin(x), atol=1e-9)


def test_shard_map_inside_calls_on_each_device(halves, seen):
    call = call_of("io", seen)
    part = jax.shard_map(call, mesh=MESH, in_specs=PartitionSpec("x"), out_specs=PartitionSpec("x"))

    @jax.jit
    def f(x):
        return call(part(x))

    np.testing.assert_array_equal(f(halves), 4 * np.arange(8.0))
    assert sorted(array.shape for array in seen) == [(4,), (4,), (8,)]


def test_partly_manual_meshes_are_refused(halves):
    devices = np.array(jax.devices("cpu")[:2]).reshape(2, 1)
    mesh = Mesh(devices, ("x", "y"))
    call = bellhop.pure_callback(lambda x: x, jax.ShapeDtypeStruct((4,), float))
    f = jax.shard_map(
        call, mesh=mesh, in_specs=PartitionSpec("x"), out_specs=PartitionSpec("x"), axis_names={"x"}
    )
    with pytest.raises(NotImplementedError, match="all axes of the mesh are manual"):
        jax.jit(f)(jnp.arange(8.0))


def test_qjit_gathers_its_arguments(halves, seen):
    call = call_of("pure", seen)
    elsewhere = jax.device_put(jnp.arange(8.0), jax.devices("cpu")[1])
    first, second = jax.devices("cpu")[:2]

    @bellhop.qjit
    def f(x, *, scale=1.0):
        return call(x) * scale

    for x, host in (
        (np.arange(8.0), second),
        (halves, first),
        (elsewhere, second),
        (halves, first),
        (jax.device_put(elsewhere, first), first),
    ):
        y = f(x, scale=jax.device_put(0.5, jax.devices("cpu")[1]))
        np.testing.assert_array_equal(y, np.arange(8.0))
        assert y.devices() == {host}
    assert [array.shape for array in seen] == [(8,)] * 5


def test_qjit_gathers_for_calls_that_began_before_it_was_known_to():
    """A call of another thread finds out first, while this one is being traced."""
    is_traced, is_known = threading.Event(), threading.Event()

    @bellhop.qjit
    def f(x):
        if x.shape == (2,):
            is_traced.set()
            assert is_known.wait(PATIENCE)
        return 2 * x

    def run_first():
        x = jax.device_put(np.arange(2.0), HALVES)
        np.testing.assert_array_equal(f(x), 2 * np.arange(2.0))

    def run_second():
        assert is_traced.wait(PATIENCE)
        try:
            x = jax.device_put(np.arange(8.0), HALVES)
            np.testing.assert_array_equal(f(x), 2 * np.arange(8.0))
        finally:
            is_known.set()

    f(1.0)
    run_at_once(run_first, run_second)


def test_qjit_gathers_beside_static_and_declared_arguments(halves):
    static = bellhop.qjit(lambda x, n: x * n, static_argnums=1)
    np.testing.assert_array_equal(static(halves, 3), 3 * np.arange(8.0))

    @bellhop.qjit
    def declared(x: jax.ShapeDtypeStruct((8,), float)):
        return 2 * x

    np.testing.assert_array_equal(declared(halves), 2 * np.arange(8.0))


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_under_a_mesh_that_the_user_set(kind, seen):
    call = call_of("pure", seen)
    device = qml.device("lightning.qubit", wires=1)

    @bellhop.qjit
    @qml.qnode(device)
    def circuit(x):
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    program = bellhop.qjit(call)
    mesh = jax.make_mesh((2,), ("a",), axis_types=(kind,))
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.arange(8.0), NamedSharding(mesh, PartitionSpec("a")))
        np.testing.assert_array_equal(jax.jit(lambda x: call(x) + 1)(x), 2 * np.arange(8.0) + 1)
        assert [array.shape for array in seen] == [(8,)]
        for _ in range(2):
            np.testing.assert_array_equal(program(x), 2 * np.arange(8.0))
            np.testing.assert_array_equal(program(np.arange(3.0)), 2 * np.arange(3.0))
            np.testing.assert_allclose(circuit(0.3), np.cos(0.3))
            np.testing.assert_allclose(bellhop.qjit(bellhop.grad(circuit))(0.3), -np.sin(0.3))
    np.testing.assert_array_equal(program(np.arange(3.0)), 2 * np.arange(3.0))


def branching(x):
    bellhop.cond(x > 2, lambda: qml.RX(x, wires=0), lambda: qml.RX(0.5, wires=0))()
    return qml.expval(qml.Z(0))


def rotated(x):
    qml.RX(x, wires=0)
    return qml.expval(qml.Z(0))


@pytest.mark.parametrize("spec", ["x", None])
def test_vmap_where_the_axes_of_the_mesh_are_explicit(seen, spec):
    device = qml.device("lightning.qubit", wires=1)
    rotate, branch = (bellhop.qjit(qml.QNode(f, device)) for f in (rotated, branching))
    one_by_one = bellhop.pure_callback(recording(seen), float, vmap_method="sequential")
    mesh = Mesh(MESH.devices, ("x",), axis_types=(AxisType.Explicit,))
    numbers = np.arange(4.0)
    expected = {
        rotate: np.cos(numbers),
        # Its rows run one after another.
        branch: np.cos([0.5, 0.5, 0.5, 3.0]),
        bellhop.grad(rotate): -np.sin(numbers),
        one_by_one: numbers,
    }
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.asarray(numbers), NamedSharding(mesh, PartitionSpec(spec)))
        for function, values in expected.items():
            np.testing.assert_allclose(jax.jit(bellhop.vmap(function))(x), values, atol=1e-12)
        np.testing.assert_allclose(jax.jit(rotate)(0.3), np.cos(0.3), atol=1e-12)
    assert len(seen) == 4


def test_disable_jit_runs_a_program_by_operations(seen):
    device = qml.device("lightning.qubit", wires=1)

    @bellhop.qjit
    def program(x):
        @qml.qnode(device)
        def circuit(x):
            qml.RX(x, wires=0)
            return qml.expval(qml.Z(0))

        value = circuit(x)
        if not isinstance(x, jax.core.Tracer):
            seen.append(float(value))
            return value if value > 0 else -value
        return value

    with jax.disable_jit():
        np.testing.assert_allclose(program(jnp.asarray(2.5)), -np.cos(2.5))
        np.testing.assert_allclose(jax.grad(program)(0.3), -np.sin(0.3))
        loop = bellhop.qjit(functools.partial(bellhop.for_loop(0, 4, 1)(lambda i, s: s + i)))
        assert loop(0) == 6
    np.testing.assert_allclose(seen, [np.cos(2.5)])
    np.testing.assert_allclose(program(2.5), np.cos(2.5))


def test_a_region_over_a_mesh_of_explicit_axes_is_traced_as_in_a_program():
    region = bellhop.accelerate(lambda x: x[0] + x[1:3].sum(), dev=jax.make_mesh((2,), ("a",)))
    x = np.arange(8.0)
    assert [float(call(x)) for call in (region, bellhop.qjit(region), jax.jit(region))] == [3] * 3
    np.testing.assert_array_equal(jax.grad(region)(x), [1, 1, 1, *[0] * 5])
