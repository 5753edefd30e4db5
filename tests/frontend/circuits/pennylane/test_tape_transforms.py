"""PennyLane's transforms that need a circuit as a tape, against PennyLane without a compiler."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

ON = functools.partial(qml.QNode, device=qml.device("lightning.qubit", wires=2))
REFERENCE = functools.partial(qml.QNode, device=qml.device("default.qubit", wires=2))


def body(x):
    qml.Hadamard(0)
    qml.RX(x, wires=0)
    qml.SWAP([0, 1])
    qml.QubitUnitary(np.array([[0, 1], [1, 0]]), wires=0)
    qml.CRY(2 * x, wires=[0, 1])
    return qml.expval(qml.Y(0)), qml.expval(qml.Z(0) @ qml.X(1)), qml.probs(wires=1)


def total(results):
    return results[0] + results[1] + results[2][0]


def terms(x):
    qml.RX(x, wires=0)
    return qml.expval(qml.Z(0) + 2 * qml.Y(0) @ qml.X(1) + 0.5 * qml.I(0))


TRANSFORMS = {
    "split_non_commuting": qml.transforms.split_non_commuting,
    "undo_swaps": qml.transforms.undo_swaps,
    "diagonalize_measurements": lambda qnode: qml.transforms.diagonalize_measurements(
        qml.transforms.split_non_commuting(qnode)
    ),
    "simplify": qml.simplify,
    "compile": qml.compile,
    "a pipeline": functools.partial(qml.compile, pipeline=[qml.transforms.undo_swaps]),
    "decompose": functools.partial(
        qml.transforms.decompose, gate_set={"RX", "RY", "RZ", "CNOT", "GlobalPhase"}
    ),
    "unitary_to_rot": qml.transforms.unitary_to_rot,
    "two": lambda qnode: qml.transforms.split_non_commuting(qml.transforms.undo_swaps(qnode)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_values_and_derivatives(name):
    changed = TRANSFORMS[name](ON(body))
    values = bellhop.qjit(changed)(0.3)
    expected = REFERENCE(body)(0.3)
    for value, right in zip(values, expected, strict=True):
        np.testing.assert_allclose(value, right, atol=1e-9)
    slope = bellhop.qjit(bellhop.grad(lambda x: total(changed(x))))(0.3)
    step = 1e-6
    below, above = (total(REFERENCE(body)(0.3 + sign * step)) for sign in (-1, 1))
    np.testing.assert_allclose(slope, (above - below) / (2 * step), atol=1e-7)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_one_measurement_of_several_tapes(device):
    qnode = qml.QNode(terms, qml.device(device, wires=2))
    f = bellhop.qjit(qml.transforms.split_to_single_terms(qnode))
    np.testing.assert_allclose(f(0.3), REFERENCE(terms)(0.3), atol=1e-9)
    batch = bellhop.qjit(bellhop.vmap(qml.transforms.split_non_commuting(qnode)))
    np.testing.assert_allclose(
        batch(jnp.array([0.3, 0.5])), [REFERENCE(terms)(x) for x in (0.3, 0.5)], atol=1e-9
    )


def test_results_keep_their_structure():
    def circuit(x):
        qml.RX(x, wires=0)
        z, y = qml.expval(qml.Z(0)), qml.expval(qml.Y(0))
        return {"z": z, "others": [y, qml.probs(wires=[0])], "x": x}

    result = bellhop.qjit(qml.transforms.split_non_commuting(ON(circuit)))(0.3)
    expected = {"z": np.cos(0.3), "others": [-np.sin(0.3), [np.cos(0.15) ** 2] * 1], "x": 0.3}
    assert jax.tree.structure(result) == jax.tree.structure({"z": 0, "others": [0, 0], "x": 0})
    np.testing.assert_allclose(result["z"], expected["z"])
    np.testing.assert_allclose(result["others"][0], expected["others"][0])
    np.testing.assert_allclose(result["others"][1][0], expected["others"][1][0])
    assert result["x"] == 0.3


def test_shots_and_their_vectors():
    def circuit():
        qml.X(0)
        return qml.expval(qml.Z(0)), qml.sample(qml.X(1)), qml.counts(wires=0)

    split = qml.transforms.split_non_commuting(ON(circuit))
    value, sample, (_, counts) = bellhop.qjit(qml.set_shots(split, 7))()
    assert value == -1
    assert sample.shape == (7,)
    np.testing.assert_array_equal(counts, [0, 7])
    copies = bellhop.qjit(qml.set_shots(split, (3, 5)))()
    assert [copy[1].shape for copy in copies] == [(3,), (5,)]


def test_loops_of_known_length_are_on_the_tape():
    def circuit(x):
        @bellhop.for_loop(0, 2, 1)
        def layer(i, angle):
            qml.RX(angle, wires=i)
            return angle + 1

        layer(x)
        bellhop.adjoint(lambda: qml.S(0))()
        bellhop.ctrl(lambda: qml.RY(x, wires=1), control=0)()
        qml.SWAP([0, 1])
        return qml.probs()

    changed = bellhop.qjit(qml.transforms.undo_swaps(ON(circuit)))
    np.testing.assert_allclose(changed(0.3), REFERENCE(circuit)(0.3), atol=1e-9)


@pytest.mark.parametrize(
    ("construct", "what"),
    [
        (
            lambda n: bellhop.for_loop(0, n, 1)(lambda i: qml.X(0))(),
            "a for_loop with traced bounds",
        ),
        (
            lambda n: bellhop.while_loop(lambda i: i < n)(lambda i: (qml.X(0), i + 1)[1])(0),
            "a while_loop",
        ),
        (lambda n: bellhop.cond(n > 1)(lambda: qml.X(0))(), "a cond"),
    ],
)
def test_what_is_no_tape_is_refused(construct, what):
    def circuit(n):
        construct(n)
        return qml.expval(qml.Z(0))

    message = f"QNode 'circuit' .*the transform undo_swaps needs a tape of gates.*{what}"
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(qml.transforms.undo_swaps(ON(circuit)))(2)


def test_pieces_are_decomposed_between_loops():
    def circuit(n):
        @bellhop.for_loop(0, n, 1)
        def loop(i):
            qml.Rot(0.1, 0.2, i / 10, wires=0)
            qml.QubitUnitary(np.array([[0, 1], [1, 0]]), wires=0)

        loop()
        return qml.probs(wires=0)

    for transform in (qml.compile, qml.transforms.unitary_to_rot, TRANSFORMS["decompose"]):
        changed = bellhop.qjit(transform(ON(circuit)))
        np.testing.assert_allclose(changed(3), REFERENCE(circuit)(3), atol=1e-9)


def test_a_transform_that_asks_for_the_value_of_an_angle():
    """The method of Solovay and Kitaev approximates angles, which must be known for it."""
    # Short words of gates, for which a small table is searched.
    approximate = functools.partial(
        qml.clifford_t_decomposition, method="sk", epsilon=0.1, max_depth=2, basis_length=4
    )
    changed = approximate(ON(terms))
    with pytest.raises(bellhop.CompileError, match="method='sk' does not support traced angles"):
        bellhop.qjit(changed)(0.3)
    value = bellhop.qjit(changed, static_argnums=0)(0.3)
    np.testing.assert_allclose(value, approximate(REFERENCE(terms))(0.3), atol=1e-9)
    assert abs(value - REFERENCE(terms)(0.3)) > 1e-3


@pytest.mark.large
def test_words_of_gates_are_as_close_as_was_asked_for():
    changed = bellhop.qjit(qml.clifford_t_decomposition(ON(terms), method="sk"), static_argnums=0)
    np.testing.assert_allclose(changed(0.3), REFERENCE(terms)(0.3), atol=5e-3)


def test_what_pennylane_refuses_names_the_qnode():
    def circuit(x):
        qml.RX(x, 0)
        return qml.expval(qml.X(0)), qml.expval(qml.Y(0))

    refused = qml.transforms.diagonalize_measurements(ON(circuit))
    with pytest.raises(ValueError, match="to commute") as raised:
        bellhop.qjit(refused)(0.3)
    place = f"raised in the QNode 'circuit' ({__file__}:{circuit.__code__.co_firstlineno})"
    assert place in raised.value.__notes__


def test_errors_of_a_transformed_qnode_name_the_line_of_the_users():
    def circuit(x, wire):
        qml.RX(x, wires=0)
        qml.PauliX(wire)
        return qml.expval(qml.Z(0))

    place = rf"'circuit' \({re.escape(__file__)}:{circuit.__code__.co_firstlineno}\): there is no"
    for function in (circuit, functools.partial(circuit, wire=7)):
        changed = qml.gradients.param_shift(ON(function))
        arguments = (0.3,) if function is not circuit else (0.3, 7)
        with pytest.raises(bellhop.CompileError, match=place):
            bellhop.qjit(changed, static_argnums=tuple(range(1, len(arguments))))(*arguments)
