"""Evaluation of traced integers that depend on constants only.

In ``qjit(lambda x: wires[-1] + jnp.arange(4)[2])`` with a constant array `wires`, JAX traces the
index, but its value depends on constants only, so it can serve as a wire or as a trip count. The
same holds, for each iteration, of values that depend only on the loop index and on constants.

NumPy evaluates the equations that JAX recorded for the tracers: integers and booleans, and few
equations. A value counts as unknown unless NumPy certainly gets the program's result.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, JaxprEqn
from jax.extend.core.primitives import jit_p
from jax.typing import DTypeLike

from bellhop._jax.jaxprs import bind_equation, find_equation, unwrap_tracer
from bellhop.base.types import Operand
from bellhop.jaxprs.jaxpr_interpreter import interpret_with

# Limits on the time of an evaluation; indices of wires take fewer equations and smaller arrays.
_MAX_EQUATIONS = 200
_MAX_ELEMENTS = 1 << 12

_NUMPY = (np.ndarray, np.generic)


class _UnknownError(Exception):
    """Raised if a traced value depends on other tracers, or NumPy cannot evaluate it.

    NumPy cannot evaluate equations without a rule, and values beyond this module's limits.
    """


def evaluate_constant(value: object) -> np.ndarray | None:
    """Return the NumPy value of an integer tracer that depends on constants only.

    Args:
        value: a tracer, or a constant with a dtype.

    Returns:
        the value; None for other tracers, for dtypes other than integers and booleans, and for
        values that depend on large constants or on many equations.
    """
    values = evaluate_static(value, (), [()])
    return None if values is None else values[0]


def evaluate_static(
    value: object, inputs: Sequence[Any], points: Sequence[tuple[int, ...]]
) -> list[np.ndarray] | None:
    """Evaluate an integer tracer for several values of the tracers that it depends on.

    For the wire ``i % 2`` in a loop with the index ``i``,
    ``evaluate_static(wire, [i], [(0,), (1,), (2,)])`` returns arrays of 0, 1 and 0.

    Args:
        value: the tracer, of integers or booleans.
        inputs: integer tracers on which `value` may depend, such as loop indices.
        points: values of `inputs`, one tuple for each evaluation.

    Returns:
        one array for each of `points`; None if `value` depends on anything but `inputs` and
        constants, or on an equation that NumPy cannot evaluate.
    """
    try:
        computation = _Computation(value, inputs)
        return [computation(each) for each in points]
    except _UnknownError:
        return None


def find_deciding_inputs(value: object, inputs: Sequence[Any]) -> list[int]:
    """Return the indices of the inputs that `value` depends on.

    Args:
        value: a tracer of integers or booleans.
        inputs: integer tracers on which `value` may depend, such as loop indices.

    Returns:
        indices into `inputs`; empty if `value` depends on none of them, and also if it depends on
        anything but `inputs` and constants.
    """
    try:
        return _Computation(value, inputs).used_inputs()
    except _UnknownError:
        return []


def fold_constant(value: object) -> Any:
    """Return a NumPy array for an integer tracer that depends on constants only.

    Booleans count as integers. All other values are returned unchanged: values that are not
    tracers, and tracers for which `evaluate_constant` returns None.

    Args:
        value: a tracer, or any other value.
    """
    found = (
        evaluate_constant(value)
        if isinstance(value, Tracer) and _is_integral(value.dtype)
        else None
    )
    return value if found is None else found


def evaluate_or_bind(eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
    """Evaluate an equation with NumPy if its operands are known arrays; else bind it.

    This is a rule for `interpret_with`; with it, computed indices are NumPy arrays, not tracers.
    NumPy evaluates the equation if no operand is traced, at least one is a NumPy array, and NumPy
    certainly gets the same result. A `dynamic_slice` of a tracer at constant start indices becomes
    a static slice.

    Args:
        eqn: the equation.
        *operands: NumPy arrays, JAX arrays or tracers.

    Returns:
        the values of the equation's results: NumPy arrays, or tracers.
    """
    is_known = [isinstance(operand, _NUMPY) for operand in operands]
    if any(is_known):
        is_traced = any(isinstance(operand, Tracer) for operand in operands)
        if is_traced and eqn.primitive is lax.dynamic_slice_p and all(is_known[1:]):
            return [_slice_constant(eqn, *operands)]
        if not is_traced and _is_computable(eqn):
            dtypes = (atom.aval.dtype for atom in eqn.invars)
            try:
                return _evaluate(eqn, list(map(np.asarray, operands, dtypes)))
            except _UnknownError:
                pass
    return bind_equation(eqn, *operands)


def evaluate_or_none(eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
    """Evaluate an equation with NumPy; return None for results that are unknown.

    With this function as the rule of each equation, `interpret_with` evaluates the known part of a
    jaxpr, and adds nothing to the current trace.

    Args:
        eqn: the equation.
        *operands: NumPy arrays, or None for unknown values.

    Returns:
        the values of the results as NumPy arrays; all None if an operand is None or NumPy cannot
        evaluate the equation.
    """
    try:
        if any(operand is None for operand in operands) or not _is_computable(eqn):
            raise _UnknownError
        dtypes = (atom.aval.dtype for atom in eqn.invars)
        return _evaluate(eqn, list(map(np.asarray, operands, dtypes)))
    except _UnknownError:
        return [None] * len(eqn.outvars)


def _slice_constant(eqn: JaxprEqn, array: Operand, *starts: Any) -> Any:
    """Compute the result of a `dynamic_slice` equation by ``lax.slice``.

    Args:
        eqn: the equation, whose parameters are the sizes of the slice.
        array: the array or tracer to slice.
        *starts: start indices, NumPy scalars, one for each axis; clamped as in `dynamic_slice`.
    """
    sizes = eqn.params["slice_sizes"]
    first = np.clip(starts, 0, np.subtract(np.shape(array), sizes)).astype(int).tolist()
    return lax.slice(array, first, np.add(first, sizes).tolist())


class _Computation:
    """The equations that compute a traced value from input tracers and constants.

    Calling it evaluates them with NumPy for given values of the inputs.

    Args:
        value: the tracer, of integers or booleans.
        inputs: integer tracers on which it may depend.

    Raises:
        _UnknownError: if `value` depends on anything else.
    """

    def __init__(self, value: object, inputs: Sequence[Any]) -> None:
        self._inputs = [(id(integer), integer.dtype) for integer in inputs]
        # Keys are the ids of tracers; `_held` keeps the tracers alive.
        self._constants: dict[int, np.ndarray] = {}
        self._equations: list[tuple[Any, list[int], list[int]]] = []
        self._dynamic_keys = {key for key, _ in self._inputs}
        self._used: set[int] = set()
        self._keys_by_result: dict[tuple[int, int], int] = {}
        self._n_seen = 0
        self._held = [value, *inputs]
        self._value = self._reach(value)

    def __call__(self, inputs: Sequence[int]) -> np.ndarray:
        """Compute the traced value for given values of the input tracers.

        Args:
            inputs: an integer for each input tracer.

        Raises:
            _UnknownError: if a rule cannot evaluate its equation for these values.
        """
        values = dict(self._constants)
        for (key, dtype), integer in zip(self._inputs, inputs, strict=True):
            values[key] = np.asarray(integer, dtype)
        for eqn, operands, results in self._equations:
            evaluated = _evaluate(eqn, [values[key] for key in operands])
            values.update(zip(results, evaluated, strict=True))
        return values[self._value]

    def used_inputs(self) -> list[int]:
        """Return the indices of the input tracers that the value depends on."""
        return [index for index, (key, _) in enumerate(self._inputs) if key in self._used]

    def _reach(self, value: object) -> int:
        """Record the equations that compute `value`, operands first.

        The equations are looked up in the current trace. An equation whose operands are all
        constants is evaluated now, and not recorded.

        Returns:
            the key under which evaluation finds the value: the id of its tracer or variable.

        Raises:
            _UnknownError: if an equation is not supported, or there are too many.
        """
        value = unwrap_tracer(value)
        key = id(value)
        self._used.add(key)
        if key in self._constants or key in self._dynamic_keys:
            return key
        self._held.append(value)
        if not isinstance(value, Tracer):
            self._constants[key] = _constant(value)
            return key
        eqn, index = find_equation(value)
        self._n_seen += 1
        if eqn is None or self._n_seen > _MAX_EQUATIONS or not _is_computable(eqn):
            raise _UnknownError
        cached = self._keys_by_result.get((id(eqn), index))
        if cached is not None:
            return cached
        operands = [self._reach(operand) for operand in eqn.in_tracers]
        keys = [id(var) for var in eqn.outvars]
        self._held += eqn.outvars
        self._keys_by_result.update({(id(eqn), i): key for i, key in enumerate(keys)})
        if all(operand in self._constants for operand in operands):
            results = _evaluate(eqn, [self._constants[operand] for operand in operands])
            self._constants.update(zip(keys, results, strict=True))
        else:
            self._equations.append((eqn, operands, keys))
            self._dynamic_keys.update(keys)
        return keys[index]


def _constant(value: Any) -> np.ndarray:
    """Convert a small array of integers or booleans to NumPy.

    Raises:
        _UnknownError: for objects without a dtype, arrays of more than `_MAX_ELEMENTS` elements,
            other dtypes, and arrays with shards in other processes.
    """
    if math.prod(np.shape(value)) > _MAX_ELEMENTS or getattr(value, "dtype", None) is None:
        raise _UnknownError
    if not _is_integral(value.dtype) or not getattr(value, "is_fully_addressable", True):
        raise _UnknownError
    return np.asarray(value)


def _is_integral(dtype: DTypeLike) -> bool:
    """Return whether a dtype is boolean or an integer type of NumPy."""
    return not jax.dtypes.issubdtype(dtype, jax.dtypes.extended) and np.dtype(dtype).kind in "biu"


def _is_computable(eqn: JaxprEqn) -> bool:
    """Return whether an equation's primitive is ``jit`` or has a NumPy rule."""
    return eqn.primitive is jit_p or eqn.primitive in _RULES


def _evaluate(eqn: JaxprEqn, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Evaluate an equation with NumPy, and check the results' shapes and dtypes.

    ``operands`` must have the dtypes of the equation's operands.

    Raises:
        _UnknownError: if the primitive has no rule, or the results have other types than the
            equation's, or are not integers or booleans.
    """
    if eqn.primitive is jit_p:
        return _evaluate_jaxpr(eqn.params["jaxpr"], operands)
    rule = _RULES.get(eqn.primitive)
    if rule is None:
        raise _UnknownError
    with np.errstate(all="ignore"):
        evaluated = rule(eqn.params, *operands)
    results = list(evaluated) if isinstance(evaluated, tuple | list) else [evaluated]
    for var, result in zip(eqn.outvars, results, strict=True):
        aval = var.aval
        if not _is_integral(aval.dtype) or (result.dtype, result.shape) != (aval.dtype, aval.shape):
            raise _UnknownError
    return results


def _evaluate_jaxpr(closed: ClosedJaxpr, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Evaluate a closed jaxpr, such as the body of a nested `jit`, with NumPy.

    Raises:
        _UnknownError: if an equation cannot be evaluated.
    """

    def evaluate(eqn: JaxprEqn, *operands: Operand) -> list[np.ndarray]:
        """Evaluate an equation with NumPy: the rule of all equations."""
        # Literals hold Python scalars.
        dtypes = (atom.aval.dtype for atom in eqn.invars)
        return _evaluate(eqn, list(map(np.asarray, operands, dtypes)))

    with_numpy_consts = ClosedJaxpr(closed.jaxpr, list(map(_constant, closed.consts)))
    results = interpret_with(with_numpy_consts, lambda _: evaluate, *operands)
    return list(map(np.asarray, results, (aval.dtype for aval in closed.out_avals)))


def _div(_: object, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Divide integers, rounded toward zero; raise `_UnknownError` for a zero in `y`."""
    if not np.all(y):
        raise _UnknownError
    # XLA's integer division rounds toward zero, NumPy's rounds down.
    return (x - np.fmod(x, y)) // y


def _rem(_: object, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the remainder, with the sign of `x`; raise `_UnknownError` if `y` has 0."""
    if not np.all(y):
        raise _UnknownError
    return np.fmod(x, y)


def _shift_rule(shift: Callable[..., Any], *, is_logical: bool = False) -> Callable[..., Any]:
    """Return the NumPy rule of a bit shift primitive.

    Args:
        shift: NumPy's shift, such as ``np.left_shift``.
        is_logical: whether the bits of signed integers are shifted as unsigned bits.

    Returns:
        a rule that raises `_UnknownError` for shifts beyond the width, where XLA differs from
        NumPy.
    """

    def evaluate(_: object, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Shift the elements of `x` by `y` bits; `_` is the equation's parameters."""
        if np.any((y < 0) | (y >= 8 * x.dtype.itemsize)):
            raise _UnknownError
        if not is_logical:
            return shift(x, y)
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        return shift(x.astype(unsigned), y.astype(unsigned)).astype(x.dtype)

    return evaluate


def _select(_: object, which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    """Evaluate ``select_n``; raise `_UnknownError` if the selector is not boolean."""
    if which.dtype != bool:
        raise _UnknownError
    return np.where(which, cases[1], cases[0])


def _broadcast(params: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    """Evaluate ``broadcast_in_dim`` with NumPy; ``params`` are the equation's."""
    shape = [1] * len(params["shape"])
    for axis, size in zip(params["broadcast_dimensions"], x.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(x.reshape(shape), params["shape"])


def _reshape(params: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    """Evaluate ``reshape`` with NumPy; raise `_UnknownError` if it permutes axes."""
    if params["dimensions"] is not None:
        raise _UnknownError
    return x.reshape(params["new_sizes"])


def _iota(params: Mapping[str, Any]) -> np.ndarray:
    """Evaluate ``iota`` with NumPy; ``params`` are the equation's parameters.

    Raises:
        _UnknownError: for arrays of more than `_MAX_ELEMENTS` elements.
    """
    if math.prod(params["shape"]) > _MAX_ELEMENTS:
        raise _UnknownError
    shape = [1] * len(params["shape"])
    shape[params["dimension"]] = -1
    numbers = np.arange(params["shape"][params["dimension"]]).astype(params["dtype"])
    return np.broadcast_to(numbers.reshape(shape), params["shape"])


def _slice(params: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    """Evaluate ``slice`` with NumPy; ``params`` are the equation's parameters."""
    strides = params["strides"] or (1,) * x.ndim
    bounds = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return x[tuple(slice(*each) for each in bounds)]


def _dynamic_slice(params: Mapping[str, Any], x: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    """Evaluate ``dynamic_slice`` with NumPy; it clamps start indices to the array.

    ``starts`` are integer scalars, one for each axis.
    """
    slices = []
    for start, size, length in zip(starts, params["slice_sizes"], x.shape, strict=True):
        first = min(max(int(start), 0), length - size)
        slices.append(slice(first, first + size))
    return x[tuple(slices)]


def _split(params: Mapping[str, Any], x: np.ndarray) -> list[np.ndarray]:
    """Evaluate ``split``, which cuts an array along an axis into given sizes."""
    return np.split(x, np.cumsum(params["sizes"])[:-1], params["axis"])


def _unstack(params: Mapping[str, Any], x: np.ndarray) -> list[np.ndarray]:
    """Evaluate ``unstack``, which returns the slices of an array along one axis."""
    return list(np.moveaxis(x, params["axis"], 0))


def _elementwise_rule(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make the rule of an elementwise primitive from NumPy's function, as ``np.add``."""
    return lambda _, *operands: function(*operands)


def _reduction_rule(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make the rule of a reduction over axes from NumPy's function, as ``np.sum``."""
    return lambda params, x: np.asarray(function(x, axis=tuple(params["axes"]))).astype(x.dtype)


# fmt: off
_NAMED: dict[str, Callable[..., Any]] = {
    "add": _elementwise_rule(np.add), "sub": _elementwise_rule(np.subtract),
    "mul": _elementwise_rule(np.multiply), "div": _div, "rem": _rem,
    "neg": _elementwise_rule(np.negative), "abs": _elementwise_rule(np.abs),
    "sign": _elementwise_rule(np.sign),
    "max": _elementwise_rule(np.maximum), "min": _elementwise_rule(np.minimum),
    "and": _elementwise_rule(np.bitwise_and), "or": _elementwise_rule(np.bitwise_or),
    "xor": _elementwise_rule(np.bitwise_xor),
    "not": _elementwise_rule(np.invert),
    "eq": _elementwise_rule(np.equal), "ne": _elementwise_rule(np.not_equal),
    "lt": _elementwise_rule(np.less), "le": _elementwise_rule(np.less_equal),
    "gt": _elementwise_rule(np.greater), "ge": _elementwise_rule(np.greater_equal),
    "shift_left": _shift_rule(np.left_shift),
    "shift_right_arithmetic": _shift_rule(np.right_shift),
    "shift_right_logical": _shift_rule(np.right_shift, is_logical=True),
    "select_n": _select,
    "clamp": _elementwise_rule(lambda low, x, high: np.minimum(np.maximum(x, low), high)),
    "convert_element_type": lambda params, x: x.astype(params["new_dtype"]),
    "copy": _elementwise_rule(np.copy), "broadcast_in_dim": _broadcast, "reshape": _reshape,
    "iota": _iota,
    "squeeze": lambda params, x: np.squeeze(x, tuple(params["dimensions"])),
    "stack": lambda params, *operands: np.stack(operands, params["axis"]),
    "slice": _slice, "dynamic_slice": _dynamic_slice, "split": _split, "unstack": _unstack,
    "rev": lambda params, x: np.flip(x, tuple(params["dimensions"])),
    "transpose": lambda params, x: np.transpose(x, params["permutation"]),
    "concatenate": lambda params, *operands: np.concatenate(operands, params["dimension"]),
    "reduce_sum": _reduction_rule(np.sum), "reduce_max": _reduction_rule(np.max),
    "reduce_min": _reduction_rule(np.min),
}
# Some primitives do not exist in every supported JAX release.
_RULES = {
    getattr(lax, f"{name}_p"): rule for name, rule in _NAMED.items() if hasattr(lax, f"{name}_p")
}
