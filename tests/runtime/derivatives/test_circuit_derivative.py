"""bellhop_circuit_derivative and bellhop_circuit_jvp, called as compiled programs do."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.runtime.circuit_calls import HANDLE, Gate, Param, begin, end, f64, gates
from tests.runtime.derivatives.test_dynamic_count import EXPVALS, FIRST, call

RX = [Gate("RX", [0], [Param(0)])]
# Of one static-count and three dynamic-count gates, which turn about the same axis: Z is the cosine
# of the sum, and Y less its sine.
ANGLES = np.array([0.3, 0.5, 0.7, 0.2])
SUM = ANGLES.sum()
EXPVAL = np.array([0, 3, 0])
# The variance of Z, which is sin^2 of the sum, and the mean of Z.
VARIANCE = np.array([1, 3, 0, 0, 3, 0])
# A rule for whatever there is, and one for nothing.
SHIFTS = {
    "ends": np.array([2]),
    "coefficients": np.array([0.5, -0.5]),
    "amounts": np.array([np.pi / 2, -np.pi / 2]),
}
INTEGER = jax.ShapeDtypeStruct((), np.int32)
NOWHERE = np.zeros((1, 0))
PARTS = np.array([[1.0, 2.0, -0.5], [0.3, 0.0, 1.5]])


def run(read: Any, **begun: Any) -> Any:
    """Run the circuit, with another gate after the place of the derivative."""

    @jax.jit
    def program() -> Any:
        state = begin(1, **{"record": 2, "engine": False} | begun)
        state = gates(state, RX, ANGLES[:1], 0)
        state = gates(state, RX, ANGLES[1:], FIRST, n_iterations=3)
        values = (HANDLE, f64(), f64(), f64(2, 1))
        state, *_ = call("measure", values, state, np.zeros(0), code=EXPVALS, jacobian=np.int64(1))
        state, steps = call("steps", (HANDLE, INTEGER), state)
        state = gates(state, RX, np.array([0.9]), FIRST + 3)
        found = read(state, steps)
        end(call("after", HANDLE, state, found))
        return found

    return program()


def direction(state: Any, perturbation: Any, parts: Any, number: int = 0, bits: int = 53) -> Any:
    return call(
        "direction",
        f64(len(parts)),
        state,
        perturbation,
        parts,
        jnp.int32(FIRST + number),
        bits=np.int64(bits),
    )


def derivative(
    state: Any,
    steps: Any = -1,
    directions: Any = NOWHERE,
    *,
    order: int = 0,
    adjoint: bool = False,
    keep: bool = False,
    result: Any = None,
    measured: Any = (EXPVALS, [1, 1], [-1, -1]),
    params: Any = ANGLES[:1],
    rules: Any = None,
    shifts: Any = SHIFTS,
    basis: Any = None,
) -> Any:
    """Return the number of the kept derivative, and the derivative."""
    code, sizes, squares = measured
    by = params.shape[-1] if basis is None else len(basis)
    shape = (sum(sizes), *[by] * order)
    rows = (directions.shape[0],) if directions.shape[1] else params.shape[:-1]
    _, kept, found = call(
        "derivative",
        (HANDLE, INTEGER, result or f64(*rows, *shape)),
        state,
        np.zeros(0),
        params,
        np.zeros(by, np.int32) if rules is None else np.asarray(rules, np.int32),
        np.zeros((0, params.shape[-1])) if basis is None else basis,
        jnp.asarray(steps, np.int32),
        directions,
        code=np.array(code),
        sizes=np.array(sizes),
        squares=np.array(squares),
        order=np.int64(order),
        adjoint=np.int64(adjoint),
        keep=np.int64(keep),
        **shifts,
    )
    return kept, found


def jvp(state: Any, directions: Any, kept: Any = 0, values: int = 2) -> Any:
    return call("jvp", f64(len(directions), values), state, directions, jnp.int32(kept))


PARAMS = np.array([0.4, 0.7, 1.1])


def of_counted_gates(
    params: Any = PARAMS, offset: int = 0, record: int = 1, engine: bool = True, **by: Any
) -> Any:
    """Differentiate a circuit of which Z is the product of the first two cosines."""

    @jax.jit
    def program() -> Any:
        state = begin(1, record=record, engine=engine)
        run = [Gate(name, [0], [Param(i)]) for i, name in enumerate(("RX", "RY", "RZ"))]
        state = gates(state, run, PARAMS, offset)
        kept, found = derivative(state, params=params, **by)
        end(state)
        return kept, found

    return program()


def product(params: Any) -> Any:
    return jnp.stack([jnp.cos(params[0]) * jnp.cos(params[1])])


@pytest.mark.parametrize("engine", [False, True])
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_by_counted_parameters(order: int, adjoint: bool, engine: bool) -> None:
    """The last one changes nothing, and has a rule without terms."""
    expected: Callable[..., Any] = product
    for _ in range(order):
        expected = jax.jacfwd(expected)
    rules = {**SHIFTS, "ends": np.array([2, 2, 2])}
    kept, found = of_counted_gates(
        order=order,
        adjoint=adjoint,
        measured=(EXPVAL, [1], [-1]),
        rules=[0, 0, 1],
        shifts=rules,
        engine=engine,
    )
    assert kept == -1
    np.testing.assert_allclose(found, jax.jit(expected)(PARAMS), atol=1e-12)


def test_second_moments() -> None:
    """Of the variance and the mean of Z, whose square has the second moment one."""
    _, found = of_counted_gates(order=1, measured=(VARIANCE, [1, 1], [1, -1]))
    expected = np.concatenate([np.zeros((1, 3)), jax.jacfwd(product)(PARAMS)])
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_along_the_rows_of_a_basis() -> None:
    basis = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, -1.0]])
    measured = EXPVAL, [1], [-1]
    _, found = of_counted_gates(order=2, basis=basis, measured=measured)
    hessian = jax.jit(jax.hessian(product))(PARAMS)
    np.testing.assert_allclose(found, basis @ hessian @ basis.T, atol=1e-12)


def test_parameters_that_are_not_differentiable_stay() -> None:
    _, found = of_counted_gates(offset=-1, order=1, measured=(EXPVAL, [1], [-1]))
    np.testing.assert_allclose(found, np.zeros((1, 3)), atol=1e-12)


def test_each_row_of_a_batch() -> None:
    xs = np.linspace(0, 1, 5)[:, None]

    @jax.jit
    def program() -> Any:
        state = gates(begin(1, record=1, rows=5), RX, xs, 0)
        found = [derivative(state, params=xs, order=2, adjoint=yes)[1] for yes in (False, True)]
        end(call("after", HANDLE, state, *found))
        return found

    expected = np.stack([-np.cos(xs), np.sin(xs)], axis=1)[..., None]
    for found in program():
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("engine", [False, True])
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("along", [1, 2, 3])
@pytest.mark.parametrize("order", [0, 1])
def test_in_directions(order: int, along: int, adjoint: bool, engine: bool) -> None:
    """And by the static-count parameter, on which all values depend alike."""

    def read(state: Any, steps: Any) -> Any:
        perturbations = direction(state, jnp.zeros(2), PARTS)
        first = jnp.stack([perturbations] * along, axis=1)
        crossed = jnp.stack([perturbations[::-1], *[perturbations] * (along - 1)], axis=1)
        rows = jnp.concatenate([first, crossed])
        return derivative(state, steps, rows, order=order, adjoint=adjoint)[1]

    slopes = PARTS.sum(axis=1)
    factors = np.concatenate([slopes**along, slopes[::-1] * slopes ** (along - 1)])
    at = SUM + (order + along) * np.pi / 2
    expected = np.stack([np.cos(at), -np.sin(at)])
    expected = (factors[:, None] * expected).reshape(4, 2, *[1] * order)
    np.testing.assert_allclose(run(read, engine=engine), expected, atol=1e-12)


@pytest.mark.parametrize("engine", [False, True])
def test_the_first_is_kept_by_the_device(engine: bool) -> None:
    def read(state: Any, steps: Any) -> Any:
        del steps
        return jvp(state, direction(state, jnp.zeros(2), PARTS))

    expected = PARTS.sum(axis=1)[:, None] * [-np.sin(SUM), -np.cos(SUM)]
    np.testing.assert_allclose(run(read, engine=engine), expected, atol=1e-12)


def test_the_first_is_kept_where_that_is_asked_for() -> None:
    """Of the variance of Z, whose second moment does not change, and of its mean."""

    def read(state: Any, steps: Any) -> Any:
        kept, _ = derivative(state, steps, keep=True, measured=(VARIANCE, [1, 1], [1, -1]))
        return jvp(state, direction(state, jnp.zeros(2), PARTS), kept)

    expected = PARTS.sum(axis=1)[:, None] * [0, -np.sin(SUM)]
    np.testing.assert_allclose(run(read), expected, atol=1e-12)


def test_directions_are_sums_that_stay_as_they_are() -> None:
    """One is the beginning of two others, and nothing is the direction of zeros."""

    def read(state: Any, steps: Any) -> Any:
        begun = direction(state, jnp.zeros(1), PARTS[:1, :1])
        one = direction(state, begun, PARTS[:1, 1:], number=1)
        other = direction(state, begun, PARTS[1:, 1:], number=1)
        more = direction(state, other, PARTS[1:, :1])
        # After the place of the derivative, and of no gate at all.
        unused = direction(state, one, np.full((1, 5), 9.0), number=3)
        same = direction(state, begun, np.zeros((1, 3)))
        perturbations = jnp.concatenate([begun, one, other, more, unused, same, jnp.zeros(1)])
        return derivative(state, steps, perturbations[:, None])[1]

    (a, b, c), (d, e, f) = PARTS
    expected = np.array([a, a + b + c, a + e + f, a + e + f + d, a + b + c, a, 0])
    expected = expected[:, None] * [-np.sin(SUM), -np.cos(SUM)]
    np.testing.assert_allclose(run(read), expected, atol=1e-12)


def beyond(state: Any, steps: Any) -> Any:
    return derivative(state, steps + 9, jnp.zeros((1, 1)))[1]


def of_another_circuit(state: Any, steps: Any) -> Any:
    return derivative(state, steps, jnp.full((1, 1), 3.0))[1]


def of_counted_parameters(state: Any, _: Any) -> Any:
    return direction(state, jnp.zeros(1), PARTS[:1], number=-FIRST)


def of_other_rows(state: Any, _: Any) -> Any:
    return direction(state, jnp.zeros(3), PARTS)


def in_more_than_numbers_tell_apart(state: Any, steps: Any) -> Any:
    del steps
    for _ in range(3):
        perturbation = direction(state, jnp.zeros(1), PARTS[:1], bits=1)
    return perturbation


def of_other_values(state: Any, steps: Any) -> Any:
    return derivative(state, steps, jnp.zeros((1, 1)), result=f64(1, 3))[1]


def kept_of_other_values(state: Any, _: Any) -> Any:
    return jvp(state, jnp.zeros(1), values=3)


def not_kept(state: Any, _: Any) -> Any:
    return jvp(state, jnp.zeros(1), kept=2)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (beyond, "expected at most the 3 recorded steps, got 11"),
        (of_another_circuit, "tangent of dynamic-count parameters was not recorded"),
        (of_counted_parameters, "tangent of dynamic-count parameters was not recorded"),
        (of_other_rows, "tangents of a direction: expected 3 rows, got 2"),
        (in_more_than_numbers_tell_apart, "needs 3 tangents, expected at most 2"),
        (of_other_values, "derivative buffer: expected 2 elements, got 3"),
        (kept_of_other_values, "derivative buffer: expected 2 elements, got 3"),
        (not_kept, "index of a stored derivative, below 1, got 2"),
    ],
)
def test_what_is_refused(read: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        run(read)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"record": 0}, "started without recording its steps"),
        ({"params": PARAMS[:1]}, "sequence of gates: expected 3 parameters"),
        ({"offset": 4}, "expected at least 4 parameters, got 3"),
        ({"rules": [0, 0, 1]}, "shift rules of parameters: expected indices 0 to 0, got 1"),
        (
            {"rules": [0, 0]},
            "got 2 shift rules and a basis of 0 rows and 3 columns",
        ),
        (
            {"shifts": {**SHIFTS, "amounts": np.ones(3)}},
            "expected ascending values, the last .* 2 coefficients and 3 amounts",
        ),
        ({"shifts": {**SHIFTS, "ends": np.array([3])}}, "got a last value of 3"),
        ({"measured": (EXPVALS, [1], [-1])}, "do not match the 2 measurements"),
        ({"measured": (EXPVALS, [1, 1], [2, -1])}, "sizes and squares do not match"),
        ({"measured": (EXPVALS, [1, 2], [1, -1])}, "sizes and squares do not match"),
        (
            {"measured": ([1, 3, 0, 0, 3, 0], [1, 1], [1, -1]), "adjoint": True},
            "sizes and squares do not match",
        ),
        ({"measured": ([3], [2], [-1])}, "expected a result of 2 complex numbers"),
        (
            {"measured": ([1, 3, 0], [1], [-1]), "adjoint": True, "engine": False},
            "Jacobian: expected 0 rows, one for each expectation value, got 1",
        ),
    ],
)
def test_what_is_refused_of_counted_gates(options: dict[str, Any], message: str) -> None:
    given = {"order": 1, "measured": (EXPVALS, [1, 1], [-1, -1]), **options}
    with pytest.raises(RuntimeError, match=message):
        of_counted_gates(**given)
    # Later circuits work.
    of_counted_gates(order=1)
