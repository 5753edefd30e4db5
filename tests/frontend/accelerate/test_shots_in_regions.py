"""Circuits with shots in regions: the device draws by itself, from one seed for each run."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

SHOTS = 400
# Five standard deviations of the mean of so many signs.
NEAR = 5 / SHOTS**0.5


def circuit_of(measure, shots=SHOTS):
    @qml.set_shots(shots)
    @qml.qnode(qml.device("default.qubit", wires=2))
    def circuit(x):
        qml.RX(x, 0)
        qml.CNOT([0, 1])
        return measure()

    return circuit


mean = circuit_of(lambda: qml.expval(qml.Z(1)))
bits = circuit_of(lambda: qml.sample(wires=1), 40)


def all_differ(samples):
    rows = np.asarray(samples).reshape(-1, 40)
    return len(np.unique(rows, axis=0)) == len(rows)


@pytest.fixture
def elsewhere(other):
    """Accelerate on a device that is not the program's own."""
    return lambda function: bellhop.accelerate(function, dev=other)


def test_measurements(elsewhere):
    circuit = circuit_of(
        lambda: (
            qml.expval(qml.Z(1)),
            qml.var(qml.Z(0)),
            qml.probs(wires=[0, 1]),
            qml.sample(wires=[0, 1]),
            qml.counts(wires=[0, 1]),
        )
    )
    program = bellhop.qjit(lambda x: elsewhere(circuit)(x))
    expval, var, probs, samples, (outcomes, counts) = program(1.0)
    np.testing.assert_allclose(expval, np.cos(1.0), atol=NEAR)
    np.testing.assert_allclose(var, np.sin(1.0) ** 2, atol=2 * NEAR)
    even = np.cos(0.5) ** 2
    np.testing.assert_allclose(probs, [even, 0, 0, 1 - even], atol=NEAR)
    assert samples.shape == (SHOTS, 2)
    np.testing.assert_array_equal(samples[:, 0], samples[:, 1])
    np.testing.assert_array_equal(outcomes, range(4))
    np.testing.assert_allclose(counts, SHOTS * np.asarray(probs))
    # The region draws: the program hands it a seed, and nothing of it is the program's.
    main = program.mlir_opt.split("func.func private")[0]
    assert main.count("quantum.seed") == 1
    assert "rng_bit_generator" not in main


def test_each_draw_is_another(elsewhere):
    def run(x):
        def scanned(carry, _):
            return carry, bits(x)

        def goes_on(state):
            # Draws, and so does the body.
            n, _ = state
            return (jnp.mean(bits(x)) >= 0) & (n < 3)

        def step(state):
            n, found = state
            return n + 1, found.at[n].set(bits(x))

        _, in_scan = jax.lax.scan(scanned, 0, None, length=3)
        _, in_while = jax.lax.while_loop(goes_on, step, (0, jnp.zeros((3, 40, 1), int)))
        in_branch = jax.lax.cond(x > 0, bits, lambda x: bits(-x), x)
        in_rows = jax.vmap(bits)(jnp.full(3, x))
        return bits(x), bits(x), in_scan, in_while, in_branch, in_rows

    program = bellhop.qjit(lambda x: (elsewhere(run)(x), elsewhere(run)(x)))
    first, second = program(np.pi / 2), program(np.pi / 2)
    leaves = jax.tree.leaves((first, second))
    assert all_differ(np.concatenate([np.asarray(leaf).reshape(-1, 40) for leaf in leaves]))


def test_regions_in_transformations_draw_for_each(elsewhere):
    rows = bellhop.qjit(lambda x: jax.vmap(elsewhere(bits))(x))(np.full(3, np.pi / 2))
    assert all_differ(rows)
    loop = lambda x: jax.lax.scan(lambda c, _: (c, elsewhere(bits)(x)), 0, None, length=3)[1]
    assert all_differ(bellhop.qjit(loop)(np.pi / 2))
    nested = lambda x: elsewhere(lambda x: (bits(x), bellhop.accelerate(bits, dev="cpu:0")(x)))(x)
    assert all_differ(np.stack(bellhop.qjit(nested)(np.pi / 2)))


def test_seed_repeats_it(elsewhere):
    def program(seed):
        return bellhop.qjit(lambda x: (elsewhere(bits)(x), bits(x)), seed=seed)

    x = np.pi / 2
    first, again, other_one = program(5), program(5), program(6)
    value = first(x)
    jax.tree.map(np.testing.assert_array_equal, value, again(x))
    jax.tree.map(np.testing.assert_array_equal, first(x), value)
    assert all_differ(np.stack([value[0], other_one(x)[0]]))


def test_gradient(elsewhere):
    derivative = bellhop.qjit(jax.grad(lambda x: elsewhere(mean)(x)))
    np.testing.assert_allclose(derivative(1.0), -np.sin(1.0), atol=2 * NEAR)
    rows = bellhop.qjit(lambda x: jax.vmap(jax.value_and_grad(elsewhere(mean)))(x))
    value, gradient = rows(np.array([0.5, 1.5]))
    np.testing.assert_allclose(value, np.cos([0.5, 1.5]), atol=NEAR)
    np.testing.assert_allclose(gradient, -np.sin([0.5, 1.5]), atol=2 * NEAR)


def test_samples_have_no_derivative_there_either(elsewhere):
    f = bellhop.qjit(jax.grad(lambda x: jnp.sum(1.0 * elsewhere(bits)(x))))
    with pytest.raises(bellhop.CompileError, match="which have no derivative"):
        f(1.0)


@pytest.mark.parametrize("mode", ["hw-like", "fill-shots"])
def test_mid_circuit_measurements(elsewhere, mode):
    @qml.set_shots(SHOTS)
    @qml.qnode(qml.device("default.qubit", wires=2), postselect_mode=mode)
    def circuit(x):
        qml.RX(x, 0)
        kept = bellhop.measure(0, reset=True)
        qml.Hadamard(1)
        bellhop.measure(1, postselect=1)
        qml.cond(kept, qml.X)(0)
        return qml.sample(wires=[0, 1]), qml.expval(kept), qml.expval(qml.Z(0))

    samples, kept, z = bellhop.qjit(lambda x: elsewhere(circuit)(x))(1.0)
    samples = np.asarray(samples)
    accepted = samples[samples[:, 1] == 1]
    assert len(accepted) == SHOTS if mode == "fill-shots" else len(accepted) > SHOTS / 4
    likely = np.sin(0.5) ** 2
    np.testing.assert_allclose(kept, likely, atol=1.5 * NEAR)
    np.testing.assert_allclose(z, 1 - 2 * likely, atol=2 * NEAR)


def test_draws_in_parts_of_a_mesh_are_refused():
    devices = jax.devices("cpu")[:2]
    mesh = jax.sharding.Mesh(devices, "i")
    spec = jax.sharding.PartitionSpec("i")
    parts = jax.shard_map(jax.vmap(mean), mesh=mesh, in_specs=spec, out_specs=spec)
    where = jax.sharding.NamedSharding(mesh, spec)
    f = bellhop.qjit(lambda x: bellhop.accelerate(parts, dev=where)(x))
    with pytest.raises(bellhop.CompileError, match="circuit with random outcomes inside of"):
        f(np.zeros(2))
