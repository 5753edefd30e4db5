"""Circuits whose results differ from Catalyst's, by section of the page."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pennylane as qml
from tests.integration.pennylane.catalyst_row import Row, Z, node, rx

import bellhop
from bellhop import grad, qjit

SECTIONS: dict[str, list[Row]] = {}

# Gates and wires


class Flip(qml.operation.Operation):
    num_wires = 1

    @staticmethod
    def compute_matrix():
        return np.array([[0, 1], [1, 0]])


single = qml.device("lightning.qubit", wires=1, c_dtype=np.complex64)
SECTIONS["Gates and wires"] = [
    Row("an angle of `float32`", "float64 0.5403", lambda: qjit(node(rx))(np.float32(1))),
    Row(
        "a device of `c_dtype=np.complex64`",
        "complex128",
        lambda: qjit(qml.QNode(qml.state, single))().dtype,
    ),
    Row(
        "an operation that defines only a matrix",
        "CompileError",
        lambda: qjit(node(lambda: [Flip(0), Z()]))(),
    ),
    Row(
        "a traced control value",
        "TracerBoolConversionError",
        lambda: qjit(node(lambda v: [qml.ctrl(qml.X(1), [0], [v]), qml.probs()]))(0),
    ),
    Row(
        "`BasisState` of a traced 2",
        "taken for another number",
        lambda: qjit(node(lambda b: [qml.BasisState(b, [0, 1]), Z()]))(np.array([0, 2])),
    ),
    Row(
        "a wire that does not exist", "RuntimeError", lambda: qjit(node(lambda: [qml.X(5), Z()]))()
    ),
    Row("the same, traced", "RuntimeError", lambda: qjit(node(lambda w: [qml.X(w), Z()]))(5)),
    Row(
        "one wire twice, traced",
        "RuntimeError",
        lambda: qjit(node(lambda w: [qml.CNOT([0, w]), Z()]))(0),
    ),
    Row("a wire of `0.5`", "TypeError", lambda: qjit(node(lambda: [qml.X(0.5), Z()]))()),
    Row("a complex angle", "TypeError", lambda: qjit(node(rx))(1j)),
]

# Measurements and shots

hermitian = lambda: qml.expval(qml.Hermitian(np.eye(2), 0))
sparse = lambda: qml.expval(qml.SparseHamiltonian(qml.Z(0).sparse_matrix(), 0))
SECTIONS["Measurements and shots"] = [
    Row(
        "`density_matrix`, `purity`, `vn_entropy`, `mutual_info`",
        "CompileError",
        lambda: qjit(node(lambda: qml.purity(0)))(),
    ),
    Row("`Hermitian` of a real matrix", "CompileError", lambda: qjit(node(hermitian))()),
    Row("`SparseHamiltonian`, `Projector`", "CompileError", lambda: qjit(node(sparse))()),
    Row(
        "shots (5, 7), `expval`, `var`, `probs`, `counts`",
        "NotImplementedError",
        lambda: qjit(node(Z, shots=(5, 7)))(),
    ),
    Row(
        "shots (5, 7), `sample`: shapes",
        "((5, 2), (7, 2))",
        lambda: [a.shape for a in qjit(node(qml.sample, shots=(5, 7)))()],
    ),
    Row(
        "shots (5, 7), a returned number",
        "float64 3.0",
        lambda: qjit(node(lambda: 3.0, shots=(5, 7)))(),
    ),
    Row(
        "`counts()` of 2 wires",
        "(int64 [0, 1, 2, 3], int64 [4, 0, 0, 0])",
        lambda: qjit(node(qml.counts, shots=4))(),
    ),
    Row(
        "`sample(dtype='int8')`",
        "int64",
        lambda: qjit(node(lambda: qml.sample(dtype="int8"), shots=4))().dtype,
    ),
]

# Measurements in the middle


def measured(x=0.5, measure=bellhop.measure, **options):
    return [qml.RX(x, 0), measure(0, **options), qml.expval(qml.Z(0))]


SECTIONS["Measurements in the middle"] = [
    Row(
        "`mcm_method='tree-traversal'` without shots",
        "one random run",
        lambda: qjit(node(measured, mcm_method="tree-traversal"))(0.5),
    ),
    Row(
        "`mcm_method='deferred'`",
        "ValueError",
        lambda: qjit(node(measured, mcm_method="deferred"))(0.5),
    ),
    Row(
        "`mcm_method='one-shot'` without shots",
        "ValueError",
        lambda: qjit(node(measured, mcm_method="one-shot"))(0.5),
    ),
    Row(
        "the gradient before a measurement",
        "DifferentiableCompileError",
        lambda: qjit(grad(node(measured)))(0.5),
    ),
    Row(
        "`catalyst.measure` in a QNode without `qjit`",
        "CompileError",
        lambda: float(node(measured)(0.5)),
    ),
    Row(
        "`measure([0, 1])`",
        "TypeError",
        lambda: qjit(node(lambda: [bellhop.measure([0, 1]), Z()]))(),
    ),
    Row("`postselect=2`", "TypeError", lambda: qjit(node(partial(measured, postselect=2)))()),
    Row(
        "in `adjoint` or `ctrl` of a function",
        "ValueError",
        lambda: qjit(node(lambda: [bellhop.adjoint(measured)(), Z()]))(),
    ),
]

# Derivatives


def unitary(x):
    c, s = jnp.cos(x / 2), -1j * jnp.sin(x / 2)
    return [qml.QubitUnitary(jnp.array([[c, s], [s, c]]), 0), qml.expval(qml.Z(0))]


tilted = lambda x: [qml.StatePrep(jnp.array([jnp.cos(x), jnp.sin(x)]), 0), qml.expval(qml.Z(0))]
weighted = lambda x: [qml.RX(0.5, 0), qml.expval(x * qml.Z(0))]
spread = lambda x: [qml.RX(x, 0), qml.var(qml.Z(0))]
likely = lambda x: [qml.RX(x, 0), qml.probs(wires=0)]
amplitudes = lambda x: [qml.RX(x, 0), qml.state()]
square = lambda x: x * x
SECTIONS["Derivatives"] = [
    Row(
        "of a complex number",
        "DifferentiableCompileError",
        lambda: qjit(grad(lambda z: jnp.abs(z) ** 2))(1j),
    ),
    Row("`argnums=5` of one argument", "IndexError", lambda: qjit(grad(square, argnums=5))(3.0)),
    Row(
        "`jvp` with a tangent of 1",
        "TypeError",
        lambda: qjit(lambda x: bellhop.jvp(square, [x], [1]))(3.0),
    ),
    Row("`vjp` outside of a program", "ValueError", lambda: bellhop.vjp(square, [3.0], [1.0])),
    Row(
        "`vmap(in_axes=None, axis_size=3)`",
        "ValueError",
        lambda: qjit(bellhop.vmap(square, in_axes=None, axis_size=3))(1.0),
    ),
    Row(
        "of `probs` by `adjoint`",
        "DifferentiableCompileError",
        lambda: qjit(bellhop.jacobian(node(likely, diff_method="adjoint")))(0.5),
    ),
    Row("of `var`", "DifferentiableCompileError", lambda: qjit(grad(node(spread)))(0.5)),
    Row(
        "of `state`",
        "DifferentiableCompileError",
        lambda: qjit(bellhop.jacobian(lambda x: jnp.real(node(amplitudes, 1)(x))))(0.5),
    ),
    Row(
        "with shots, by `adjoint`",
        "exact, without them",
        lambda: qjit(grad(node(rx, shots=9, diff_method="adjoint")))(0.5),
    ),
    Row(
        "with respect to a coefficient of an observable",
        "float64 0.0",
        lambda: qjit(grad(node(weighted)))(2.0),
    ),
    Row(
        "of a circuit of `x * x`",
        "its compiler crashed",
        lambda: qjit(grad(lambda x: node(rx)(x * x)))(0.5),
    ),
    Row(
        "with respect to a traced `QubitUnitary`, `StatePrep`",
        "CompileError",
        lambda: (qjit(grad(node(unitary)))(0.5), qjit(grad(node(tilted)))(0.5)),
    ),
]

# Mitigation


def mitigated(body=rx, scale_factors=(1, 3), **options):
    return bellhop.mitigate_with_zne(node(body), scale_factors=scale_factors, **options)


SECTIONS["Mitigation"] = [
    Row(
        "scale factors (1.0, 3.0)",
        "TypeError",
        lambda: qjit(mitigated(scale_factors=(1.0, 3.0)))(0.5),
    ),
    Row(
        "`folding='local-random'`",
        "NotImplementedError",
        lambda: qjit(mitigated(folding="local-random"))(0.5),
    ),
    Row("outside of a program", "AssertionError", lambda: mitigated()(0.5)),
    Row("of `probs`", "TypeError", lambda: qjit(mitigated(likely))(0.5)),
    Row("its gradient", "CompileError", lambda: qjit(grad(mitigated()))(0.5)),
    Row(
        "`extrapolate` that returns several numbers",
        "a tuple",
        lambda: qjit(mitigated(extrapolate=lambda scales, values: values))(0.5),
    ),
]
