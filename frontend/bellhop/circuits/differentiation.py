"""Derivatives of a circuit's measurements, to any order.

They are taken where the measurements are made, by the vector of all gate parameters, the
coefficients of observables, and their matrices.  By parameters there are two native ways: the
adjoint Jacobian, and to run the recorded gates again with shifted parameters.  Either can be
done at many points at once, so the derivative of one is the other at shifted points.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad

from bellhop.circuits import shift_rules
from bellhop.circuits.device import DeviceSpec
from bellhop.circuits.measurements import _HERMITIAN, _NAMED, _TENSOR, EXPVAL, VAR, Measurement
from bellhop.circuits.uncounted import values_tangent
from bellhop.errors import DifferentiableCompileError

ADJOINT = "adjoint"
PARAMETER_SHIFT = "parameter-shift"
FINITE_DIFFERENCES = "finite-diff"

# Up to here, a matrix of an observable is differentiated through its Pauli words.
_MATRIX_WIRES = 4

# jacobian: handle, coefficients f64[c], matrices f64[m], params f64[p] -> handle, f64[expvals, p]
jacobian_p = Primitive("quantum_jacobian")
# replay: handle, coefficients f64[c], matrices f64[m], params f64[p], index i32[rows, order],
#   amount f64[rows, order] -> handle, values of each row...
replay_p = Primitive("quantum_replay")
# replay_jacobian: the same -> handle, f64[rows, expvals, p]
replay_jacobian_p = Primitive("quantum_replay_jacobian")
for _primitive in (jacobian_p, replay_p, replay_jacobian_p):
    _primitive.multiple_results = True
# shift: handle, coefficients f64[c], matrices f64[m], params f64[p], weights f64[terms],
#   amounts f64[terms] -> handle, the number i32[] under which its session keeps the derivative by
#   uncounted parameters
shift_p = Primitive("quantum_shift")
shift_p.multiple_results = True


@dataclass(frozen=True)
class Differentiation:
    """How the measurements of a circuit are differentiated.

    Attributes:
        method: by the parameters of gates, one of the names above.
        frequencies: the bits of the frequencies of each parameter, for shift rules.
        uncounted: those of all parameters that only the run counts.
        options: of finite differences.
        obstacle: why there is no derivative; nothing where there is one.
    """

    method: str = ADJOINT
    frequencies: bytes = field(default=b"", repr=False)
    uncounted: int = shift_rules.NO_FREQUENCIES
    options: tuple[tuple[str, Any], ...] = ()
    obstacle: str = ""

    def rule(self, n_params: int) -> shift_rules.ShiftRule:
        """Return the rule that differentiates by shifted parameters."""
        assert len(self.frequencies) == n_params
        return self._rule_of(self.frequencies)

    def rule_of_uncounted(self) -> shift_rules.ShiftRule:
        """Return one rule that differentiates by any of the uncounted parameters."""
        return self._rule_of(bytes([self.uncounted]))

    def _rule_of(self, bits: bytes) -> shift_rules.ShiftRule:
        if self.method == FINITE_DIFFERENCES:
            return shift_rules.finite_differences(bits, **dict(self.options))
        if shift_rules.UNKNOWN_FREQUENCIES in bits:
            raise DifferentiableCompileError(
                "the derivative needs a parameter-shift rule, and there is none for a gate in "
                "it. Use diff_method='finite-diff', or decompose the gate."
            )
        return shift_rules.parameter_shift(bits)


@dataclass(frozen=True)
class _Static:
    """What all of the primitives here know when the program is compiled."""

    measurements: tuple[Measurement, ...]
    device: DeviceSpec
    differentiation: Differentiation

    def params(self) -> dict[str, Any]:
        return {
            "measurements": self.measurements,
            "device": self.device,
            "differentiation": self.differentiation,
        }

    def of(self, measurements: Sequence[Measurement]) -> "_Static":
        return replace(self, measurements=tuple(measurements))


def measurement_jvp(
    measure_p: Primitive, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
) -> Any:
    """Differentiate the measurements at the end of a circuit."""
    static = _Static(**params)
    obstacle = static.differentiation.obstacle
    if obstacle and any(map(_is_given, tangents[1:])):
        raise DifferentiableCompileError(obstacle)
    handle, *values = measure_p.bind(*primals, **params)
    if not any(map(_is_given, tangents[1:])):
        return [handle, *values], [_zero(value) for value in (handle, *values)]
    operands = (*primals[1:4], *_NO_SHIFT)
    values_dot = [jnp.zeros_like(value) for value in values]
    tokens_dot = list(filter(_is_given, tangents[4:]))
    is_adjoint = static.differentiation.method == ADJOINT
    if is_adjoint and (_is_given(tangents[3]) or tokens_dot):
        # The device has recorded the circuit, so it need not run again.
        handle, jacobian = jacobian_p.bind(handle, *primals[1:4], **params)
        if _is_given(tangents[3]):
            values_dot = list(jacobian @ tangents[3])
        for token_dot in tokens_dot:
            moved = values_tangent(token_dot, handle, jnp.int32(0), len(values))
            values_dot = [a + b for a, b in zip(values_dot, moved, strict=True)]
    elif _is_given(tangents[3]):
        rows = [value[None] for value in values]
        handle, moved = _moved_by_shifts(handle, operands, tangents[3], rows, static)
        values_dot = [row[0] for row in moved]
    for token_dot in [] if is_adjoint else tokens_dot:
        handle, moved = _moved_by_uncounted_shifts(handle, operands, token_dot, values, static)
        values_dot = [a + b for a, b in zip(values_dot, moved, strict=True)]

    def evaluate(handle: Any, terms: Sequence[Measurement]) -> Any:
        handle, *rows = replay_p.bind(handle, *operands, **static.of(terms).params())
        return handle, [row[0] for row in rows]

    handle, values_dot = _moved_by_data(handle, operands, tangents, values_dot, static, evaluate)
    return [handle, *values], [_zero(handle), *values_dot]


def _replay_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    static = _Static(**params)
    handle, *values = replay_p.bind(*primals, **params)
    operands = primals[1:]
    values_dot = [jnp.zeros_like(value) for value in values]
    if _is_given(tangents[3]):
        if static.differentiation.method == ADJOINT:
            handle, jacobians = replay_jacobian_p.bind(handle, *operands, **params)
            values_dot = list(jnp.moveaxis(jacobians @ tangents[3], 1, 0))
        else:
            handle, values_dot = _moved_by_shifts(handle, operands, tangents[3], values, static)

    def evaluate(handle: Any, terms: Sequence[Measurement]) -> Any:
        handle, *rows = replay_p.bind(handle, *operands, **static.of(terms).params())
        return handle, rows

    handle, values_dot = _moved_by_data(handle, operands, tangents, values_dot, static, evaluate)
    return [handle, *values], [_zero(handle), *values_dot]


def _jacobian_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    handle, jacobian = jacobian_p.bind(*primals, **params)
    operands = (*primals[1:], *_NO_SHIFT)
    handle, moved = _moved_jacobians(handle, operands, tangents, jacobian[None], _Static(**params))
    return [handle, jacobian], [_zero(handle), moved[0]]


def _replay_jacobian_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    handle, jacobians = replay_jacobian_p.bind(*primals, **params)
    static = _Static(**params)
    handle, moved = _moved_jacobians(handle, primals[1:], tangents, jacobians, static)
    return [handle, jacobians], [_zero(handle), moved]


ad.primitive_jvps[jacobian_p] = _jacobian_jvp
ad.primitive_jvps[replay_p] = _replay_jvp
ad.primitive_jvps[replay_jacobian_p] = _replay_jacobian_jvp

_NO_SHIFT = np.zeros((1, 0), np.int32), np.zeros((1, 0))


def _is_given(tangent: Any) -> bool:
    return type(tangent) is not ad.Zero and tangent.size > 0


def _zero(value: Any) -> Any:
    return ad.Zero(jax.typeof(value).to_tangent_aval())


def _all_shifts(index: Any, amount: Any, rule: shift_rules.ShiftRule) -> tuple[Any, Any]:
    """Return points, each of which is shifted in every way of a rule."""

    def product(rows: Any, terms: Any) -> Any:
        n_rows, n_terms = rows.shape[0], terms.shape[0]
        repeated = jnp.repeat(rows, n_terms, axis=0)
        return jnp.concatenate([repeated, jnp.tile(terms, n_rows)[:, None]], axis=1)

    return product(index, rule.indices()), product(amount, rule.amounts())


def _weights(rule: shift_rules.ShiftRule, params_dot: Any) -> tuple[Any, Any]:
    """Return the weights of the values at each shift, and of the value without one."""
    return rule.coefficients() * params_dot[rule.indices()], rule.unshifted @ params_dot


def _moved_by_shifts(
    handle: Any,
    operands: Sequence[Any],
    params_dot: Any,
    values: Sequence[Any],
    static: _Static,
) -> tuple[Any, list[Any]]:
    """Return the change of values when the parameters change, by values at shifted points.

    The rules hold for what is linear in the state: expectation values and probabilities.  The
    square ``E[A**2]`` is such, and a variance is that less the square of ``E[A]``.
    """
    coefficients, matrices, params, index, amount = operands
    _refuse_differences_of_differences(index, static)
    rule = static.differentiation.rule(params.shape[0])
    points = _all_shifts(index, amount, rule)
    of_variances = [replace(m, kind=EXPVAL) for m in static.measurements if m.kind == VAR]
    more = static.of([*static.measurements, *of_variances]).params()
    handle, *shifted = replay_p.bind(handle, coefficients, matrices, params, *points, **more)
    means: list[Any] = []
    if of_variances:
        only = static.of(of_variances).params()
        handle, *means = replay_p.bind(handle, *operands, **only)
    weights, unshifted_weight = _weights(rule, params_dot)
    rows = index.shape[0]

    def moved(at_shifts: Any, here: Any) -> Any:
        by_row = at_shifts.reshape(rows, weights.shape[0], *here.shape[1:])
        return jnp.einsum("s,rs...->r...", weights, by_row) + unshifted_weight * here

    n = len(static.measurements)
    variances = iter(zip(shifted[n:], means, strict=True))
    values_dot = []
    for measurement, at_shifts, here in zip(static.measurements, shifted, values, strict=False):
        if measurement.kind == VAR:
            mean_at_shifts, mean = next(variances)
            squares = moved(at_shifts + mean_at_shifts**2, here + mean**2)
            values_dot.append(squares - 2 * mean * moved(mean_at_shifts, mean))
        else:
            values_dot.append(moved(at_shifts, here))
    return handle, values_dot


def _moved_by_uncounted_shifts(
    handle: Any,
    operands: Sequence[Any],
    token_dot: Any,
    values: Sequence[Any],
    static: _Static,
) -> tuple[Any, list[Any]]:
    """Return the change of values when parameters change that only the run counts.

    The rule is one for all of them, and what the device gives of a variance is the derivative of
    ``E[A**2]``.
    """
    of_variances = [replace(m, kind=EXPVAL) for m in static.measurements if m.kind == VAR]
    all_measured = static.of([*static.measurements, *of_variances])
    rule = static.differentiation.rule_of_uncounted()
    weights, amounts = rule.coefficients(), rule.amounts()
    if rule.unshifted[0]:
        weights = jnp.concatenate([weights, rule.unshifted])
        amounts = jnp.concatenate([amounts, jnp.zeros(1)])
    handle, derivative = shift_p.bind(
        handle, *operands[:3], weights, amounts, **all_measured.params()
    )
    n = len(static.measurements)
    shapes = [value.shape for value in values]
    means: Iterator[Any] = iter(())
    if of_variances:
        handle, *rows = replay_p.bind(handle, *operands, **static.of(of_variances).params())
        means = iter(row[0] for row in rows)
    sizes = [math.prod(shape) for shape in shapes] + [1] * len(of_variances)
    moved = values_tangent(token_dot, handle, derivative, sum(sizes))
    ends = [0, *itertools.accumulate(sizes)]
    parts = [moved[start:end] for start, end in itertools.pairwise(ends)]
    of_means = iter(parts[n:])
    values_dot = []
    for measurement, part, shape in zip(static.measurements, parts, shapes, strict=False):
        if measurement.kind == VAR:
            part = part - 2 * next(means) * next(of_means)
        values_dot.append(part.reshape(shape))
    return handle, values_dot


def _moved_jacobians(
    handle: Any,
    operands: Sequence[Any],
    tangents: Sequence[Any],
    jacobians: Any,
    static: _Static,
) -> tuple[Any, Any]:
    """Return the change of adjoint Jacobians ``[rows, expvals, p]``."""
    coefficients, matrices, params, index, amount = operands
    jacobians_dot = jnp.zeros_like(jacobians)
    if _is_given(tangents[3]):
        rule = static.differentiation.rule(params.shape[0])
        points = _all_shifts(index, amount, rule)
        handle, shifted = replay_jacobian_p.bind(
            handle, coefficients, matrices, params, *points, **static.params()
        )
        weights, _ = _weights(rule, tangents[3])
        by_row = shifted.reshape(index.shape[0], weights.shape[0], *jacobians.shape[1:])
        jacobians_dot = jnp.einsum("s,rsep->rep", weights, by_row)

    def evaluate(handle: Any, terms: Sequence[Measurement]) -> Any:
        handle, of_terms = replay_jacobian_p.bind(handle, *operands, **static.of(terms).params())
        return handle, list(jnp.moveaxis(of_terms, 1, 0))

    by_measurement = list(jnp.moveaxis(jacobians_dot, 1, 0))
    handle, moved = _moved_by_data(handle, operands, tangents, by_measurement, static, evaluate)
    return handle, jnp.stack(moved, axis=1)


def _moved_by_data(
    handle: Any,
    operands: Sequence[Any],
    tangents: Sequence[Any],
    values_dot: list[Any],
    static: _Static,
    evaluate: Callable[[Any, Sequence[Measurement]], tuple[Any, list[Any]]],
) -> tuple[Any, list[Any]]:
    """Add the change of values when the data of observables change, in which they are linear."""
    coefficients = operands[0]
    coefficients_dot, matrices_dot = tangents[1:3]
    terms: list[Measurement] = []
    weights: list[Any] = []
    owners: list[int] = []
    for owner, measurement in enumerate(static.measurements):
        if measurement.kind not in (EXPVAL, VAR):
            continue
        for number, term in enumerate(measurement.terms):
            by_term: list[tuple[tuple[int, ...], Any]] = []
            coefficient: Any = 1.0
            if measurement.coefficients is not None:
                coefficient = coefficients[measurement.coefficients + number]
                if _is_given(coefficients_dot):
                    slot = measurement.coefficients + number
                    by_term.append((term, coefficients_dot[slot]))
            if _is_given(matrices_dot):
                words = _by_pauli_words(term, matrices_dot)
                by_term += [(word, coefficient * weight) for word, weight in words]
            for code, weight in by_term:
                if measurement.kind == VAR:
                    raise DifferentiableCompileError(
                        "a variance is differentiated by the coefficients or the matrix of its "
                        "observable. Compute it from qml.expval of the observable and of its "
                        "square."
                    )
                terms.append(Measurement(EXPVAL, terms=(code,)))
                weights.append(weight)
                owners.append(owner)
    if not terms:
        return handle, values_dot
    handle, of_terms = evaluate(handle, terms)
    result = list(values_dot)
    for owner, weight, value in zip(owners, weights, of_terms, strict=True):
        result[owner] = result[owner] + weight * value
    return handle, result


def _by_pauli_words(
    term: tuple[int, ...], matrices_dot: Any
) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Write the change of a term's matrices in Pauli words; yield codes and weights."""
    factors = list(_factors(term))
    for position, factor in enumerate(factors):
        if factor[0] != _HERMITIAN:
            continue
        n_wires = factor[1]
        wires, start = factor[2:-1], factor[-1]
        if n_wires > _MATRIX_WIRES:
            raise DifferentiableCompileError(
                f"the matrix of a Hermitian observable on {n_wires} wires is differentiated, "
                f"which is done up to {_MATRIX_WIRES}. Write it as a sum of Pauli words."
            )
        size = 4**n_wires
        entries = matrices_dot[start : start + 2 * size].reshape(size, 2)
        others = factors[:position] + factors[position + 1 :]
        for word in itertools.product(_PAULIS, repeat=n_wires):
            named = [(_PAULIS[name], wire) for name, wire in zip(word, wires, strict=True)]
            matrix = np.ones((1, 1))
            for name in word:
                matrix = np.kron(matrix, getattr(qml, name).compute_matrix())
            # The trace of the product with a matrix whose entries are real, imaginary, ...
            products = np.stack([matrix.real.T, -matrix.imag.T], axis=-1).reshape(size, 2)
            yield _product([*others, *named]), jnp.sum(products * entries) / 2**n_wires


_PAULIS = {"Identity": 0, **{name: _NAMED[name] for name in ("PauliX", "PauliY", "PauliZ")}}


def _factors(term: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the factors of a term's code."""
    position = 0
    if term[0] == _TENSOR:
        position = 2
    while position < len(term):
        length = term[position + 1] + 3 if term[position] == _HERMITIAN else 2
        yield term[position : position + length]
        position += length


def _product(factors: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    if len(factors) == 1:
        return factors[0]
    return (_TENSOR, len(factors), *(number for factor in factors for number in factor))


def _refuse_differences_of_differences(index: Any, static: _Static) -> None:
    if static.differentiation.method == FINITE_DIFFERENCES and index.shape[1]:
        raise DifferentiableCompileError(
            "it is differentiated twice, and finite differences of finite differences are mostly "
            "rounding errors. Use diff_method='best' or 'parameter-shift'."
        )


@jacobian_p.def_abstract_eval
def _jacobian_aval(
    handle: Any,
    _coefficients: Any,
    _matrices: Any,
    params: Any,
    *,
    measurements: tuple[Measurement, ...],
    **_: Any,
) -> list[Any]:
    shape = (len(measurements), params.shape[0])
    return [handle, ShapedArray(shape, np.dtype(np.float64))]


@shift_p.def_abstract_eval
def _shift_aval(handle: Any, *_: Any, **__: Any) -> list[Any]:
    return [handle, ShapedArray((), np.dtype(np.int32))]


@replay_p.def_abstract_eval
def _replay_aval(
    handle: Any,
    *operands: Any,
    measurements: tuple[Measurement, ...],
    device: DeviceSpec,
    **_: Any,
) -> list[Any]:
    # In a batch, its own rows come first.
    rows = (*operands[2].shape[:-1], operands[-1].shape[0])
    shapes = [measurement.result_shape(device) for measurement in measurements]
    return [handle, *(ShapedArray((*rows, *shape), np.dtype(dtype)) for shape, dtype in shapes)]


@replay_jacobian_p.def_abstract_eval
def _replay_jacobian_aval(
    handle: Any, *operands: Any, measurements: tuple[Measurement, ...], **_: Any
) -> list[Any]:
    params, index = operands[2:4]
    *batch, n_params = params.shape
    shape = (*batch, index.shape[0], len(measurements), n_params)
    return [handle, ShapedArray(shape, np.dtype(np.float64))]
