"""`native_callback`: a C function that a compiled program calls without Python."""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from bellhop.arguments.accepted_arguments import format_count
from bellhop.arguments.declared_types import MISSING
from bellhop.base.public_function import public_function
from bellhop.base.source import user_site
from bellhop.base.types import Operand
from bellhop.callbacks.callback_type import CallbackType, Pure, Results, SideEffects
from bellhop.callbacks.pure_callback import PureCallback, Rule
from bellhop.compiler.callback_target import describe_value, flatten_arguments
from bellhop.compiler.native_target import (
    ARRAY_FORMS,
    NativeSymbol,
    NativeTarget,
    is_passed_by_value,
    list_parameters,
)
from bellhop.errors import ResultTypeError
from bellhop.native.c_functions import find_c_function
from bellhop.native.ffi_callback import FfiCallback, is_capsule


class _NativePure(Pure):
    """Callback type of C functions without side effects, ``"native"`` in MLIR."""

    kind = "native"


class _NativeEffect(SideEffects):
    """Callback type of C functions with ordered side effects, ``"native_io"`` in MLIR."""

    kind = "native_io"


NATIVE = _NativePure("native_callback", target_type=NativeTarget)
NATIVE_EFFECT = _NativeEffect(
    "native_callback", primitive="native_effect", target_type=NativeTarget
)


class NativeCallback(PureCallback[..., Any]):
    """A C function that traced code can call: the result of ``native_callback``.

    Args:
        symbol: the C function's address, and the types of its parameters that are known.
        result_type: type of the result, or ``MISSING`` to use the C type of the returned value.
        argument_types: dtype of each argument, as in ``native_callback``; None if not declared.
        arrays: C parameters of an array: ``"pointer"``, ``"length"``, ``"shape"`` or ``"strides"``.
        returns_value: whether the C function returns the result by value; None to decide by the
            result's type.
        elementwise: whether the function is called for each element of its arguments.
        thread_safe: whether several threads may call the function at once.
        keep_subnormals: whether the function computes with subnormal numbers.
        has_side_effect: whether calls are made exactly once, in program order.

    Raises:
        ResultTypeError: if the result type is missing or does not fit the options.

    Example:
        >>> import bellhop
        >>> cbrt = bellhop.native_callback(library="libm.so.6", symbol="cbrt", result_type=float)
        >>> cbrt(8.0)
        Array(2., dtype=float64)
    """

    _callback_type = NATIVE

    def __init__(
        self,
        symbol: NativeSymbol,
        result_type: Any,
        *,
        argument_types: Sequence[Any] | None,
        arrays: str,
        returns_value: bool | None,
        elementwise: bool,
        thread_safe: bool,
        keep_subnormals: bool,
        has_side_effect: bool,
    ) -> None:
        if result_type is MISSING:
            if symbol.return_type is None:
                raise ResultTypeError(
                    f"native_callback '{symbol.name}' (called from {user_site()}) has no result "
                    "type. Pass result_type, such as float or jax.ShapeDtypeStruct(shape, dtype)."
                )
            result_type = symbol.return_type
        super().__init__(symbol, result_type)
        self._symbol = symbol
        self._argument_types = self._parse_argument_types(argument_types)
        self._arrays = arrays
        self._elementwise = elementwise
        self._thread_safe = thread_safe
        self._keep_subnormals = keep_subnormals
        self._kind: CallbackType = NATIVE_EFFECT if has_side_effect else NATIVE
        assert self._declared is not None
        avals, _ = self._declared
        is_scalar = len(avals) == 1 and is_passed_by_value(avals[0])
        if returns_value and not is_scalar:
            raise ResultTypeError(
                f"{self._described}: returns_value=True, and the result is "
                f"{', '.join(map(describe_value, avals))}, expected one real scalar. Results of "
                f"other "
                "types are written to addresses: leave returns_value out."
            )
        self._returns_value = is_scalar if returns_value is None else returns_value
        if elementwise and any(aval.shape != () for aval in avals):
            raise ResultTypeError(
                f"{self._described}: elementwise=True, and the result is "
                f"{', '.join(map(describe_value, avals))}, expected scalars. Declare the result "
                f"of one "
                "element."
            )
        if self._returns_value:
            self._check_returned(avals[0])

    def _parse_argument_types(self, argument_types: Any) -> list[np.dtype | None] | None:
        """Convert the option ``argument_types`` to NumPy's dtypes.

        Args:
            argument_types: the user's sequence of dtypes and None, or None.

        Returns:
            for each argument its dtype, or None if the user passed None for it; None if the user
            did not pass the option.

        Raises:
            TypeError: if the option is not a sequence of dtypes.
        """
        if argument_types is None:
            return None
        if isinstance(argument_types, Sequence) and not isinstance(argument_types, str):
            with contextlib.suppress(TypeError):
                return [None if type_ is None else np.dtype(type_) for type_ in argument_types]
        raise TypeError(
            f"{self._described_call}: argument_types is {argument_types!r}, expected a sequence "
            "with the dtype of each argument, such as [float, np.int32]."
        )

    def _check_returned(self, aval: ShapedArray) -> None:
        """Check that ``result_type`` equals the type that the C function returns.

        Args:
            aval: type of the only result, which is returned by value.

        Raises:
            ResultTypeError: if the C type is known and the dtypes differ.
        """
        known = self._symbol.return_type
        if known is not None and known != aval.dtype:
            raise ResultTypeError(
                f"{self._described} returns {known.name} in C, but result_type is "
                f"{aval.dtype.name}. Declare the result type {known.name}."
            )

    def _checked_rule(self, function: Rule, name: str) -> Rule:
        """Wrap a derivative rule that a user registers, so that its errors name the rule.

        Args:
            function: the user's rule.
            name: ``"fwd"``, ``"bwd"`` or ``"jvp"``.

        Raises:
            TypeError: if the C function has side effects, or a transpose rule.
        """
        self._check_pure(name)
        return super()._checked_rule(function, name)

    def _set_linear(self, argnums: Any, rule: Callable[..., Any] | None) -> None:
        """Declare the C function linear, with a transpose rule.

        Args:
            argnums: positions of the linear arguments; None for all.
            rule: the transpose rule; None if the function is its own transpose.

        Raises:
            TypeError: if the function has side effects, or another derivative rule.
        """
        self._check_pure("transpose")
        super()._set_linear(argnums, rule)

    @property
    def _type_remedy(self) -> str:
        """How a user can declare the types of the C parameters, for the end of an error."""
        if self._symbol.library is not None:
            return "declare argument_types"
        return "set the argtypes of the ctypes function"

    def _check_pure(self, rule: str) -> None:
        """Raise `TypeError` if the C function has side effects, thus no derivative.

        Args:
            rule: name of the rule that the user registers, such as ``"jvp"``, for the error.
        """
        if self._kind is NATIVE_EFFECT:
            raise TypeError(
                f"{self._described} has side effects and gets a {rule} rule, expected no "
                "derivative. Remove the rule, or leave out has_side_effect=True if the function is "
                "pure."
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the C function with traced or concrete arrays and scalars, by position.

        Raises:
            TypeError: for keyword arguments, and for arguments that are pytrees, such as lists.
        """
        if kwargs:
            raise TypeError(
                f"{self._described_call} got the keyword arguments {', '.join(kwargs)}, expected "
                "arguments by position: C functions have no names for them."
            )
        for position, arg in enumerate(args):
            if not jax.tree_util.all_leaves([arg]):
                raise TypeError(
                    f"{self._described_call}: argument {position} is a {type(arg).__name__}, "
                    "expected an array or a scalar. Make an array of it, or pass its elements one "
                    "by one."
                )
        return super().__call__(*args)

    def _results(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Results:
        """Return the types of the result's leaves, and its ``PyTreeDef``.

        The types are the declared types. For an elementwise function, their shape is the broadcast
        shape of all arguments.

        Args:
            args: arrays and scalars.
            kwargs: empty.
        """
        avals, tree = super()._results(args, kwargs)
        if not self._elementwise:
            return avals, tree
        shape = np.broadcast_shapes(*map(jnp.shape, args))
        return tuple(ShapedArray(shape, aval.dtype) for aval in avals), tree

    def _call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Trace a call of the C function; if it is elementwise, for each element.

        Args:
            args: arrays and scalars.
            kwargs: empty.

        Returns:
            the result, a pytree of arrays or tracers.
        """
        leaves, _ = flatten_arguments(NATIVE.name, self._function, args, kwargs)
        assert self._declared is not None
        avals, tree = self._declared
        call = functools.partial(self._bind, avals=avals, tree=tree)
        if not self._elementwise:
            return call(*self._convert(leaves, [jnp.shape(leaf) for leaf in leaves]))
        shape = np.broadcast_shapes(*map(jnp.shape, leaves))
        converted = self._convert(leaves, [()] * len(leaves))
        if shape == ():
            return call(*converted)
        in_axes = [0 if jnp.shape(leaf) else None for leaf in converted]
        rows = [
            jnp.broadcast_to(leaf, shape).reshape(-1) if jnp.shape(leaf) else leaf
            for leaf in converted
        ]
        flat = jax.vmap(call, in_axes)(*rows)
        return jax.tree.map(lambda leaf: leaf.reshape(shape), flat)

    def _bind(self, *leaves: Any, avals: Any, tree: Any) -> Any:
        """Bind the callback primitive for one call of the C function.

        `_call` maps it with ``jax.vmap`` for an elementwise function.

        Args:
            *leaves: the arguments, with the types of the C parameters.
            avals: types of the results.
            tree: ``PyTreeDef`` of the result.
        """
        target = self._kind.target(
            self._symbol,
            jax.tree.structure((tuple(leaves), {})),
            (avals, tree),
            missing_rule=self._missing_rule(),
            argument_avals=tuple(
                ShapedArray(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves
            ),
            arrays=self._arrays,
            returns_value=self._returns_value,
            thread_safe=self._thread_safe,
            keep_subnormals=self._keep_subnormals,
        )
        return self._kind.bind(target, leaves)

    def _convert(self, leaves: Sequence[Operand], shapes: Sequence[Any]) -> list[Any]:
        """Convert the arguments of a call to the types of the C parameters.

        Args:
            leaves: arrays and Python scalars.
            shapes: the shape of each argument in one call; ``()`` for an elementwise function.

        Returns:
            an array for each argument.

        Raises:
            TypeError: if the number of parameters or a type differs from the function's.
        """
        assert self._declared is not None
        arguments = [
            ShapedArray(shape, jax.typeof(leaf).dtype)
            for leaf, shape in zip(leaves, shapes, strict=True)
        ]
        types = self._parameter_types([*arguments, *self._declared[0]], len(leaves))
        converted = []
        for position, (leaf, shape, expected) in enumerate(zip(leaves, shapes, types, strict=True)):
            aval = jax.typeof(leaf)
            if expected is not None:
                if aval.dtype != expected and not _can_cast(aval, expected):
                    raise TypeError(
                        f"{self._describe_argument(position)} has type {describe_value(aval)}, "
                        f"expected {expected.name}. Cast it: C functions do not convert arguments."
                    )
                leaf = jnp.asarray(leaf, expected)
            elif shape == ():
                self._check_scalar(position, aval, arguments)
                leaf = jnp.asarray(leaf, aval.dtype)
            else:
                leaf = jnp.asarray(leaf)
            converted.append(leaf)
        return converted

    def _describe_argument(self, position: int) -> str:
        """Describe an argument for errors: callback, user's line and position."""
        return f"{self._described_call}: argument {position}"

    def _check_scalar(self, position: int, aval: Any, arguments: Sequence[Any]) -> None:
        """Raise `TypeError` if a scalar argument has an ambiguous C type, or none.

        Ambiguous are Python integers, and Python floats that may be a float or a double in C. Some
        dtypes, such as float16, are not passed by value in C.

        Args:
            position: index of the argument among the leaves, for the error.
            aval: type of the argument; weak types of Python numbers may not determine the C type.
            arguments: types of all arguments; a float32 scalar among arguments and results makes a
                Python float uncertain.
        """
        dtype = np.dtype(aval.dtype)
        is_weak = getattr(aval, "weak_type", False)
        assert self._declared is not None
        others = {each.dtype for each in (*arguments, *self._declared[0]) if each.shape == ()}
        if is_weak and dtype.kind == "f" and (dtype != np.float64 or np.dtype("f4") in others):
            raise TypeError(
                f"{self._describe_argument(position)} is a Python float, and may be a float or "
                "a double in C. Pass np.float32(...) or np.float64(...) (x.astype(dtype) for a "
                f"traced value), or {self._type_remedy}."
            )
        if is_weak and dtype.kind in "iu":
            raise TypeError(
                f"{self._describe_argument(position)} is a Python integer, and the types of "
                "the C parameters are not known. Pass a float, or a scalar of the C type, such as "
                f"np.int64(3), or {self._type_remedy}."
            )
        if dtype.kind == "f" and dtype.itemsize < 4 or dtype.kind not in "biufc":
            raise TypeError(
                f"{self._describe_argument(position)} has type {dtype.name}, which C does not "
                "pass by value. Cast it, or pass an array."
            )

    def _parameter_types(self, avals: Sequence[Any], n_arguments: int) -> list[np.dtype | None]:
        """Return the dtype that each argument of a call must have; None for any dtype.

        The dtypes are `argument_types` if the user declared them, and otherwise the types of the C
        parameters as far as they are known.

        Args:
            avals: types of the arguments and results, in this order.
            n_arguments: number of arguments.

        Raises:
            TypeError: if arguments and C parameters do not match.
        """
        parameters = list_parameters(avals, n_arguments, self._arrays, self._returns_value)
        known = self._symbol.parameter_types
        types: list[np.dtype | None] = [None] * n_arguments
        if self._argument_types is not None:
            if len(self._argument_types) != n_arguments:
                raise TypeError(
                    f"{self._described_call}: argument_types declares "
                    f"{format_count(len(self._argument_types), 'argument')}, and the call passes "
                    f"{n_arguments}. Pass an argument for each type."
                )
            return self._argument_types
        if known is None:
            return types
        if len(known) != len(parameters):
            raise TypeError(
                f"{self._described_call} has {format_count(len(known), 'C parameter')}, and the "
                f"call passes {len(parameters)}: {_describe_parameters(parameters, avals)}. Pass "
                "other arguments, or choose another form of arrays=."
            )
        for position, ((kind, index, _), dtype) in enumerate(zip(parameters, known, strict=True)):
            is_address = kind in ("pointer", "constants")
            if is_address != (dtype is None):
                raise TypeError(
                    f"{self._described_call}: C parameter {position} (counted from 0) is "
                    f"{'an address' if dtype is None else dtype.name}, and the call passes "
                    f"{_describe_parameters([parameters[position]], avals)}. Pass the "
                    "arguments in the order of the C parameters, or choose another form of "
                    "arrays=, which passes sizes and results differently."
                )
            if kind == "value":
                types[index] = dtype
            if kind == "pointer":
                self._check_pointee(position, avals[index])
            if kind == "constant" and dtype is not None and dtype.kind not in "iu":
                raise TypeError(
                    f"{self._described_call}: C parameter {position} is {dtype.name}, and the call "
                    "passes the size of an array. Choose another form of arrays=."
                )
        return types

    def _check_pointee(self, position: int, aval: Any) -> None:
        """Check that a C pointer parameter has the element type of the passed array.

        Nothing is checked if the C parameter's element type is not known.

        Args:
            position: index of the C parameter.
            aval: type of the array whose address is passed.

        Raises:
            TypeError: if the element types differ.
        """
        pointees = self._symbol.pointees
        expected = None if pointees is None else pointees[position]
        dtype = np.dtype(aval.dtype)
        # Complex elements are pairs; other types are bits to C.
        real = np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype
        if expected is None or real == expected or (dtype.kind == "b" and expected == np.uint8):
            return
        if dtype.kind not in "biufc":
            return
        raise TypeError(
            f"{self._described_call}: C parameter {position} points to {expected.name}, and the "
            f"call passes the address of {describe_value(aval)}. Cast the argument, or declare "
            "another result type."
        )


def _can_cast(aval: Any, dtype: np.dtype) -> bool:
    """Return whether an argument may be cast to the dtype of a C parameter.

    An array may be cast if NumPy calls the cast safe, such as float32 to float64. A Python number,
    whose type is weak, may be cast to any dtype of the same kind, and if JAX promotes it to the
    dtype, such as an integer to float32.

    Args:
        aval: type of the argument.
        dtype: dtype of the C parameter.
    """
    if getattr(aval, "weak_type", False):
        return jnp.promote_types(aval.dtype, dtype) == dtype or aval.dtype.kind == dtype.kind
    return bool(np.can_cast(aval.dtype, dtype, "safe"))


def _describe_parameters(parameters: Sequence[Any], avals: Sequence[Any]) -> str:
    """List C parameters of a call as text: ``"a size, the address of float64[3]"``.

    Args:
        parameters: for each C parameter, its kind (``"value"``, ``"pointer"``, ``"constant"`` for a
            size, or ``"constants"`` for the address of sizes), the index of its array in `avals`,
            and a third value that is not used.
        avals: types of the arguments and results.
    """
    words = {"constant": "a size", "constants": "the address of sizes"}
    return ", ".join(
        words.get(kind)
        or (
            describe_value(avals[i])
            if kind == "value"
            else f"the address of {describe_value(avals[i])}"
        )
        for kind, i, _ in parameters
    )


@public_function
def native_callback(
    function: Any = None,
    result_type: Any = MISSING,
    *,
    library: str | None = None,
    symbol: str | None = None,
    argument_types: Sequence[Any] | None = None,
    arrays: str = "length",
    returns_value: bool | None = None,
    elementwise: bool = False,
    thread_safe: bool = False,
    keep_subnormals: bool = False,
    has_side_effect: bool = False,
) -> Any:
    """Make a C function callable from compiled programs, without Python.

    Scalars are passed by value, arrays as the address of their elements in row-major order;
    `arrays` selects the parameters that follow an address. Results follow the arguments, as
    addresses that the function writes to; a single real scalar is the returned value instead.
    ``bellhop/native.h`` in ``bellhop_runtime.include_dir()`` describes the signature. A function
    that crashes ends the process.

    ``fwd`` and ``bwd``, ``jvp`` or ``transpose`` of the result register derivatives, as for
    ``pure_callback``. Under ``vmap`` the runtime loops over the batch.

    Args:
        function: a ``ctypes`` function; a ``cfunc`` of Numba; or a ``PyCapsule`` with a handler of
            XLA's FFI for the CPU (``jax.ffi.pycapsule``), for which only `result_type` and
            `has_side_effect` count, and whose effects have no order.
        result_type: the type of the result, as for ``pure_callback``. It may be left out if the C
            type of the returned value is known.
        library: a shared library, as the system's loader names it, in the place of `function`.
        symbol: the name of a function in `library`.
        argument_types: for `library`, the dtype of each argument, in order; None where any type is
            passed on. Without it, a Python float is a double, and a Python integer an error.
        arrays: the C parameters of an array: ``"pointer"`` (its address), ``"length"`` (and
            the number of elements, ``int64_t``), ``"shape"`` (its address, the number of axes, and
            the address of the sizes) or ``"strides"`` (and the address of the strides in bytes).
        returns_value: whether the result is the returned value; None for whether it is one real
            scalar.
        elementwise: whether the function, of scalars, is applied to all elements of its arguments,
            which are broadcast against each other.
        thread_safe: whether a batch may be called by several threads at once.
        keep_subnormals: whether the function computes with subnormal numbers, as C does outside of
            programs, for about 12 ns a call. Without it they count as zero, as in XLA's kernels.
        has_side_effect: whether calls are made exactly once, in program order. Without it the
            compiler may drop, merge and move calls, as for ``pure_callback``.

    Returns:
        a ``NativeCallback``; for a capsule an ``FfiCallback``, with the same rules.

    Raises:
        TypeError: if `function` has no address, or neither or both of `function` and `library`
            are given; when it is called, if its parameters do not fit the arguments.
        ValueError: if `arrays` is not one of the four strings.
        OSError: if the library cannot be loaded.
        AttributeError: if the library has no such symbol.
        ResultTypeError: (a TypeError) without a usable result type.

    Example:
        >>> import bellhop, jax
        >>> cbrt = bellhop.native_callback(
        ...     library="libm.so.6", symbol="cbrt", result_type=float, elementwise=True)
        >>> @cbrt.jvp
        ... def _(primals, tangents):
        ...     (x,), (dx,) = primals, tangents
        ...     y = cbrt(x)
        ...     return y, dx / (3 * y**2)
        >>> bellhop.qjit(cbrt)(jax.numpy.array([1.0, 8.0, 27.0]))
        Array([1., 2., 3.], dtype=float64)
        >>> bellhop.qjit(bellhop.grad(cbrt))(8.0)
        Array(0.08333333, dtype=float64, weak_type=True)
    """
    if arrays not in ARRAY_FORMS:
        raise ValueError(
            f"native_callback (called from {user_site()}): arrays={arrays!r}, expected one of "
            f"{', '.join(map(repr, ARRAY_FORMS))}."
        )
    if is_capsule(function):
        return FfiCallback(function, result_type, has_side_effect=has_side_effect)
    return NativeCallback(
        find_c_function(function, library, symbol, argument_types),
        result_type,
        argument_types=argument_types,
        arrays=arrays,
        returns_value=returns_value,
        elementwise=elementwise,
        thread_safe=thread_safe,
        keep_subnormals=keep_subnormals,
        has_side_effect=has_side_effect,
    )
