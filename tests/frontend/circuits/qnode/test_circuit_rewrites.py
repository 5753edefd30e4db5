"""PennyLane's transforms of QNodes, and zero-noise extrapolation."""

import functools

import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.gate_counts import gate_count, has_adjoints

import bellhop


def body(x):
    qml.Hadamard(0)
    qml.RX(x, wires=0)
    qml.RX(2 * x, wires=0)
    qml.CNOT([0, 1])
    qml.PauliX(1)
    qml.PauliX(1)
    return qml.expval(qml.Y(0)), qml.expval(qml.Z(0) @ qml.Z(1))


def qnode(function=body, device="lightning.qubit"):
    return qml.QNode(function, qml.device(device, wires=2))


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_transforms_of_qnodes(device):
    changed = qml.transforms.merge_rotations(qml.transforms.cancel_inverses(qnode(device=device)))
    f = bellhop.qjit(changed)
    np.testing.assert_allclose(f(0.3), qnode(device="default.qubit")(0.3), atol=1e-9)
    if device == "lightning.qubit":
        plain = bellhop.qjit(qnode())
        plain(0.3)
        assert (gate_count(plain), gate_count(f)) == (6, 3)
    gradient = bellhop.qjit(bellhop.jacobian(lambda x: changed(x)[0]))
    step = 1e-6
    reference = qnode(device="default.qubit")
    expected = (reference(0.3 + step)[0] - reference(0.3 - step)[0]) / (2 * step)
    np.testing.assert_allclose(gradient(0.3), expected, atol=1e-7)


@pytest.mark.parametrize("gate", [qml.RX, qml.CRX, qml.Rot])
@pytest.mark.parametrize("device", ["lightning.qubit", "default.mixed"])
@pytest.mark.parametrize(
    "transform",
    [
        qml.transforms.merge_rotations,
        qml.transforms.single_qubit_fusion,
        qml.compile,
        functools.partial(qml.compile, pipeline=[qml.transforms.merge_rotations]),
    ],
)
def test_computed_angles_after_constant_ones(transform, device, gate):
    wires = [0, 1][: gate.num_wires]
    constant = [0.3, 0.2, 0.1][: gate.num_params]

    def circuit(x):
        qml.RY(0.4, 0)
        qml.RY(0.5, 1)
        gate(*constant, wires)
        gate(*[x, 2 * x, 0.7][: gate.num_params], wires)
        gate(*constant, wires)
        return qml.expval(qml.Y(wires[-1])), qml.expval(qml.X(0))

    changed = transform(qnode(circuit, device))
    expected = qnode(circuit, "default.qubit")
    np.testing.assert_allclose(bellhop.qjit(changed)(0.6), expected(0.6), atol=1e-7)
    gradient = bellhop.qjit(bellhop.jacobian(lambda x: jnp.stack(changed(x))))(0.6)
    step = 1e-5
    difference = np.subtract(expected(0.6 + step), expected(0.6 - step)) / (2 * step)
    np.testing.assert_allclose(gradient, difference, atol=1e-6)


def test_constant_angles_beside_computed_ones_still_cancel():
    def circuit(x):
        qml.RY(x, 0)
        qml.RX(0.3, 1)
        qml.RX(-0.3, 1)
        return qml.expval(qml.Z(0))

    f = bellhop.qjit(qml.transforms.merge_rotations(qnode(circuit)))
    np.testing.assert_allclose(f(0.6), np.cos(0.6))
    assert gate_count(f) == 1


def looped(x):
    @bellhop.for_loop(0, 3, 1)
    def loop(i):
        qml.RX(x * i, wires=0)
        qml.CNOT([0, 1])

    loop()
    return qml.expval(qml.Z(0)), qml.probs(wires=1)


@pytest.mark.parametrize("folding", ["global", "local-all", "local-random"])
def test_folding_applies_every_gate_so_many_times(folding):
    seen = []

    def extrapolate(scales, values):
        seen.append(scales)
        return values[-1]

    mitigated = bellhop.mitigate_with_zne(
        qnode(), scale_factors=[1, 3, 5], extrapolate=extrapolate, folding=folding
    )
    f = bellhop.qjit(mitigated)
    np.testing.assert_allclose(f(0.3), qnode(device="default.qubit")(0.3), atol=1e-9)
    assert gate_count(f) == 6 * (1 + 3 + 5)
    np.testing.assert_array_equal(seen[0], [1, 3, 5])
    assert has_adjoints(f)


def within_functions(x):
    qml.adjoint(lambda: (qml.RX(x, 0), qml.RY(0.3, 0)))()
    qml.ctrl(lambda: qml.RY(x, 1), 0)()
    return qml.expval(qml.Z(1))


def test_gates_of_inverted_and_controlled_functions_are_folded_locally():
    mitigated = bellhop.mitigate_with_zne(
        qnode(within_functions), scale_factors=[1, 3], folding="local-all"
    )
    f = bellhop.qjit(mitigated)
    np.testing.assert_allclose(f(0.3), qnode(within_functions, "default.qubit")(0.3), atol=1e-9)
    assert gate_count(f) == 3 * (1 + 3)


def test_gates_of_inverted_and_controlled_functions_are_decomposed():
    basis = {"RX", "RY", "RZ", "CNOT", "GlobalPhase"}
    f = bellhop.qjit(qml.transforms.decompose(qnode(within_functions), gate_set=basis))
    np.testing.assert_allclose(f(0.3), qnode(within_functions, "default.qubit")(0.3), atol=1e-9)
    assert "CRY" not in f.mlir


def test_loops_are_folded_locally():
    # Of a length that the program computes, so that its gates count once.
    def looped(x, n):
        @bellhop.for_loop(0, n, 1)
        def loop(i):
            qml.RX(x * i, wires=0)
            qml.CNOT([0, 1])

        loop()
        return qml.expval(qml.Z(0)), qml.probs(wires=1)

    f = bellhop.qjit(
        bellhop.mitigate_with_zne(qnode(looped), scale_factors=(1, 3), folding="local-all")
    )
    values, probabilities = f(0.3, 3)
    expected = bellhop.qjit(qnode(looped))(0.3, 3)
    np.testing.assert_allclose(values, expected[0], atol=1e-6)
    np.testing.assert_allclose(probabilities, expected[1], atol=1e-6)
    assert gate_count(f) == 2 * (1 + 3)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_circuits_with_control_flow_are_folded_as_a_whole(device):
    def circuit(x, n):
        qml.StatePrep(np.array([0.6, 0.0, 0.8, 0.0]), wires=[0, 1])

        @bellhop.for_loop(0, n, 1)
        def loop(i, angle):
            qml.RX(angle, wires=0)
            qml.CRY(angle * i, wires=[0, 1])
            return angle + x

        @bellhop.cond(loop(x) > 0.5)
        def branch():
            qml.S(0)

        branch()
        return qml.expval(qml.Y(0)), qml.probs(wires=1)

    seen = []

    def last(scales, values):
        seen.append(values)
        return values[-1]

    mitigated = bellhop.mitigate_with_zne(
        qnode(circuit, device), scale_factors=[1, 3], extrapolate=last
    )
    f = bellhop.qjit(mitigated)
    expected = qnode(circuit, "default.qubit")(0.3, 3)
    for value, right in zip(f(0.3, 3), expected, strict=True):
        np.testing.assert_allclose(value, right, atol=1e-9)
    if device == "lightning.qubit":
        plain = bellhop.qjit(qnode(circuit))
        plain(0.3, 3)
        # The state is prepared once in each.
        assert gate_count(f) == (gate_count(plain) - 1) * (1 + 3) + 2
    with pytest.raises(
        bellhop.CompileError, match=r"a measure \(.*\) is not supported in a function that"
    ):
        bellhop.qjit(
            bellhop.mitigate_with_zne(
                qnode(lambda: [bellhop.measure(0), qml.expval(qml.Z(0))][1]), scale_factors=[1, 3]
            )
        )()


def test_scale_factors_of_a_program():
    def program(scales):
        return bellhop.mitigate_with_zne(qnode(), scale_factors=scales)(0.3)

    expected = qnode(device="default.qubit")(0.3)
    constant = bellhop.qjit(lambda: program(jnp.array([1, 3])))()
    np.testing.assert_allclose(constant, expected, atol=1e-9)
    with pytest.raises(ValueError, match=r"known when the program is traced.* Pass a list"):
        bellhop.qjit(program)(jnp.array([1, 3]))


def test_values_are_extrapolated_by_pennylane():
    """The extrapolation sees values that depend on the scale as noise would make them."""
    scales = [1, 3, 5]

    def noisy(extrapolate):
        def with_noise(x, y):
            return extrapolate(x, y * jnp.exp(-0.1 * jnp.asarray(x)))

        return bellhop.qjit(
            bellhop.mitigate_with_zne(qnode(), scale_factors=scales, extrapolate=with_noise)
        )

    exact = qnode(device="default.qubit")(0.3)
    decayed = np.exp(-0.1 * np.array(scales))
    for extrapolate in (qml.noise.richardson_extrapolate, qml.noise.exponential_extrapolate):
        factor = extrapolate(np.array(scales, float), decayed)
        result = noisy(extrapolate)(0.3)
        np.testing.assert_allclose(result[0], exact[0] * factor, atol=1e-6)


def test_every_qnode_of_a_function_and_of_a_qjit_function():
    circuit = qnode()

    @bellhop.qjit
    def f(x):
        return circuit(x)[0] + circuit(2 * x)[1]

    mitigated = bellhop.mitigate_with_zne(f, scale_factors=[1, 3])
    assert isinstance(mitigated, bellhop.QJIT)
    np.testing.assert_allclose(mitigated(0.3), f(0.3), atol=1e-6)
    assert gate_count(mitigated) == 2 * 6 * (1 + 3)
    gradient = bellhop.qjit(bellhop.grad(mitigated))
    np.testing.assert_allclose(gradient(0.3), bellhop.qjit(bellhop.grad(f))(0.3), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale_factors": [1, 2]}, "odd integers above zero; got"),
        ({"scale_factors": [1]}, "two or more different"),
        ({"scale_factors": [1, -3]}, "odd integers above zero"),
        ({"scale_factors": [1, 1.5]}, "odd integers above zero"),
        ({"scale_factors": 3}, "must be a sequence of numbers"),
        (
            {"scale_factors": [1, 3], "folding": "half"},
            "folding is 'half', expected one of global, local-all",
        ),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        bellhop.mitigate_with_zne(qnode(), **options)


@pytest.mark.parametrize("given", [lambda scales, values: values, lambda s, v: (v[0], v[1])])
def test_what_is_extrapolated_is_one_number(given):
    mitigated = bellhop.mitigate_with_zne(qnode(), scale_factors=[1, 3], extrapolate=given)
    with pytest.raises(TypeError, match="extrapolate must return one number"):
        bellhop.qjit(mitigated)(0.3)
