"""Values that are known while a program is traced, though JAX traces what computes them.

In ``qjit(lambda x: wires[-1] + jnp.arange(4)[2])`` of a constant array all is computed from
constants, so wires and lengths of loops that are are known.  So are those that the numbers of
iterations alone decide, for each number.

NumPy computes them, from what JAX notes of the tracers: whole numbers and truth values, by few
equations.  What is not known to be the same in the program counts as unknown.
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

# A wire is computed by fewer equations, and from smaller arrays; to look at more takes time.
_MOST_EQUATIONS = 200
_MOST_ELEMENTS = 1 << 12

_NUMPY = (np.ndarray, np.generic)


class _UnknownError(Exception):
    """A value depends on what is not known, or is computed in a way that is not."""


def evaluate_constant(value: object) -> np.ndarray | None:
    """Return a value that is computed from nothing but constants; else None."""
    values = evaluate_static(value, (), [()])
    return None if values is None else values[0]


def evaluate_static(
    value: object, numbers: Sequence[Any], at: Sequence[tuple[int, ...]]
) -> list[np.ndarray] | None:
    """Return a value for each of some tuples of numbers, if they and constants decide it.

    Args:
        value: is being traced.
        numbers: tracers, from which it may be computed.
        at: the numbers to put there.
    """
    try:
        computation = _Computation(value, numbers)
        return [computation(each) for each in at]
    except _UnknownError:
        return None


def find_deciding_inputs(value: object, numbers: Sequence[Any]) -> list[int]:
    """Return which numbers decide a value; none where anything but they and constants does.

    Args:
        value: is being traced.
        numbers: tracers, from which it may be computed.
    """
    try:
        return _Computation(value, numbers).used()
    except _UnknownError:
        return []


def fold_constant(value: object) -> Any:
    """Return a value that is computed from nothing but constants as an array of NumPy's."""
    found = (
        evaluate_constant(value)
        if isinstance(value, Tracer) and _is_integral(value.dtype)
        else None
    )
    return value if found is None else found


def evaluate_or_bind(eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
    """Evaluate an equation: by NumPy, where arrays of NumPy's are given that decide the results."""
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
    """Evaluate an equation by NumPy; its results are None where an operand is, or NumPy cannot."""
    try:
        if any(operand is None for operand in operands) or not _is_computable(eqn):
            raise _UnknownError
        dtypes = (atom.aval.dtype for atom in eqn.invars)
        return _evaluate(eqn, list(map(np.asarray, operands, dtypes)))
    except _UnknownError:
        return [None] * len(eqn.outvars)


def _slice_constant(eqn: JaxprEqn, array: Operand, *starts: Any) -> Any:
    sizes = eqn.params["slice_sizes"]
    first = np.clip(starts, 0, np.subtract(np.shape(array), sizes)).astype(int).tolist()
    return lax.slice(array, first, np.add(first, sizes).tolist())


class _Computation:
    """What computes a traced value."""

    def __init__(self, value: object, numbers: Sequence[Any]) -> None:
        self._numbers = [(id(number), number.dtype) for number in numbers]
        # By the identities of tracers, which the equations keep alive.
        self._constants: dict[int, np.ndarray] = {}
        self._equations: list[tuple[Any, list[int], list[int]]] = []
        self._known_later = {key for key, _ in self._numbers}
        self._used: set[int] = set()
        self._made: dict[tuple[int, int], int] = {}
        self._n_seen = 0
        self._held = [value, *numbers]
        self._value = self._reach(value)

    def __call__(self, numbers: Sequence[int]) -> np.ndarray:
        """Return the value for some numbers."""
        values = dict(self._constants)
        for (key, dtype), number in zip(self._numbers, numbers, strict=True):
            values[key] = np.asarray(number, dtype)
        for eqn, operands, results in self._equations:
            made = _evaluate(eqn, [values[key] for key in operands])
            values.update(zip(results, made, strict=True))
        return values[self._value]

    def used(self) -> list[int]:
        """Return the places of the numbers that the value is computed from."""
        return [place for place, (key, _) in enumerate(self._numbers) if key in self._used]

    def _reach(self, value: object) -> int:
        """Note the equations that make a value, those before others first; return its key."""
        value = unwrap_tracer(value)
        key = id(value)
        self._used.add(key)
        if key in self._constants or key in self._known_later:
            return key
        self._held.append(value)
        if not isinstance(value, Tracer):
            self._constants[key] = _constant(value)
            return key
        eqn, place = find_equation(value)
        self._n_seen += 1
        if eqn is None or self._n_seen > _MOST_EQUATIONS or not _is_computable(eqn):
            raise _UnknownError
        made = self._made.get((id(eqn), place))
        if made is not None:
            return made
        operands = [self._reach(operand) for operand in eqn.in_tracers]
        keys = [id(var) for var in eqn.outvars]
        self._held += eqn.outvars
        self._made.update({(id(eqn), i): key for i, key in enumerate(keys)})
        if all(operand in self._constants for operand in operands):
            results = _evaluate(eqn, [self._constants[operand] for operand in operands])
            self._constants.update(zip(keys, results, strict=True))
        else:
            self._equations.append((eqn, operands, keys))
            self._known_later.update(keys)
        return keys[place]


def _constant(value: Any) -> np.ndarray:
    if math.prod(np.shape(value)) > _MOST_ELEMENTS or getattr(value, "dtype", None) is None:
        raise _UnknownError
    if not _is_integral(value.dtype) or not getattr(value, "is_fully_addressable", True):
        raise _UnknownError
    return np.asarray(value)


def _is_integral(dtype: DTypeLike) -> bool:
    return not jax.dtypes.issubdtype(dtype, jax.dtypes.extended) and np.dtype(dtype).kind in "biu"


def _is_computable(eqn: JaxprEqn) -> bool:
    return eqn.primitive is jit_p or eqn.primitive in _RULES


def _evaluate(eqn: JaxprEqn, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    if eqn.primitive is jit_p:
        return _evaluate_jaxpr(eqn.params["jaxpr"], operands)
    rule = _RULES.get(eqn.primitive)
    if rule is None:
        raise _UnknownError
    with np.errstate(all="ignore"):
        made = rule(eqn.params, *operands)
    results = list(made) if isinstance(made, tuple | list) else [made]
    for var, result in zip(eqn.outvars, results, strict=True):
        aval = var.aval
        if not _is_integral(aval.dtype) or (result.dtype, result.shape) != (aval.dtype, aval.shape):
            raise _UnknownError
    return results


def _evaluate_jaxpr(closed: ClosedJaxpr, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    def of_numbers(eqn: JaxprEqn, *operands: Operand) -> list[np.ndarray]:
        # A literal is a number of Python's.
        dtypes = (atom.aval.dtype for atom in eqn.invars)
        return _evaluate(eqn, list(map(np.asarray, operands, dtypes)))

    numbers = ClosedJaxpr(closed.jaxpr, list(map(_constant, closed.consts)))
    results = interpret_with(numbers, lambda _: of_numbers, *operands)
    return list(map(np.asarray, results, (aval.dtype for aval in closed.out_avals)))


def _div(_: object, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if not np.all(y):
        raise _UnknownError
    # XLA's rounds to zero, and NumPy's down.
    return (x - np.fmod(x, y)) // y


def _rem(_: object, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if not np.all(y):
        raise _UnknownError
    return np.fmod(x, y)


def _shift_rule(shift: Callable[..., Any], *, is_logical: bool = False) -> Callable[..., Any]:
    def rule(_: object, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if np.any((y < 0) | (y >= 8 * x.dtype.itemsize)):
            raise _UnknownError
        if not is_logical:
            return shift(x, y)
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        return shift(x.astype(unsigned), y.astype(unsigned)).astype(x.dtype)

    return rule


def _select(_: object, which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    if which.dtype != bool:
        raise _UnknownError
    return np.where(which, cases[1], cases[0])


def _broadcast(params: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    shape = [1] * len(params["shape"])
    for axis, size in zip(params["broadcast_dimensions"], x.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(x.reshape(shape), params["shape"])


def _reshape(params: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    if params["dimensions"] is not None:
        raise _UnknownError
    return x.reshape(params["new_sizes"])


def _iota(params: Mapping[str, Any]) -> np.ndarray:
    if math.prod(params["shape"]) > _MOST_ELEMENTS:
        raise _UnknownError
    shape = [1] * len(params["shape"])
    shape[params["dimension"]] = -1
    numbers = np.arange(params["shape"][params["dimension"]]).astype(params["dtype"])
    return np.broadcast_to(numbers.reshape(shape), params["shape"])


def _slice(params: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    strides = params["strides"] or (1,) * x.ndim
    bounds = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return x[tuple(slice(*each) for each in bounds)]


def _dynamic_slice(params: Mapping[str, Any], x: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    places = []
    for start, size, length in zip(starts, params["slice_sizes"], x.shape, strict=True):
        first = min(max(int(start), 0), length - size)
        places.append(slice(first, first + size))
    return x[tuple(places)]


def _split(params: Mapping[str, Any], x: np.ndarray) -> list[np.ndarray]:
    return np.split(x, np.cumsum(params["sizes"])[:-1], params["axis"])


def _unstack(params: Mapping[str, Any], x: np.ndarray) -> list[np.ndarray]:
    return list(np.moveaxis(x, params["axis"], 0))


def _elementwise_rule(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _, *operands: function(*operands)


def _reduction_rule(function: Callable[..., Any]) -> Callable[..., Any]:
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
# fmt: on
# Not each release of JAX has all of them.
_RULES = {
    getattr(lax, f"{name}_p"): rule for name, rule in _NAMED.items() if hasattr(lax, f"{name}_p")
}
