"""Runtime side of one callback: the function to call, and its types."""

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.typing import DTypeLike

from bellhop._jax.private import trace_state_clean
from bellhop._jax.slow_dispatch import is_searching
from bellhop.arguments.mutable_references import check_no_references
from bellhop.arguments.structure_difference import describe_structures
from bellhop.base.source import definition_site, function_name, qualified_name, user_site
from bellhop.base.types import Operand
from bellhop.base.value_checks import flatten_sortable
from bellhop.compiler.batching import ThreadedBatchFunction
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.callback_hints import suggest_type
from bellhop.compiler.gates_in_callbacks import current_circuit_name, forbid_gates
from bellhop.compiler.invalid_results import check_results_in_search
from bellhop.compiler.overflow_checks import accepts_number, cast_to_declared
from bellhop.concurrency.workers import StartableFunction, Workers
from bellhop.errors import DifferentiableCompileError
from bellhop_runtime import DTYPES, Callback

# `vmap_method` that calls a function for batch elements on threads.
ON_THREADS = "sequential_threadpool"


@dataclass(frozen=True)
class CallbackTarget:
    """A Python function that a compiled program calls, with the types of one call.

    Tracing a call such as ``pure_callback(f, float)(x)`` creates one. It is the parameter
    ``target`` of the call's equation in the jaxpr, and lives as long as the program. Targets are
    equal if they call the same function with the same types and options, so that equal pure calls
    can be merged.

    Attributes:
        public_name: name of the public function, such as ``pure_callback``, for errors.
        function: the user's function, called with ``(args, kwargs)`` of ``in_tree``.
        in_tree: ``PyTreeDef`` of ``(args, kwargs)``.
        out_tree: ``PyTreeDef`` of the result.
        result_avals: types of the result's leaves, with the axes in ``loops``.
        site: ``file:line`` of the user's call.
        missing_rule: ``"fwd"``, ``"bwd"`` or ``"transpose"`` if this derivative rule is missing;
            None otherwise. For errors.
        vmap_method: behaviour under ``vmap``, such as ``"sequential"``; None if it is not
            supported.
        loops: for each ``vmap`` axis over which the function is called element by element,
            outermost first: a bool for each argument, whether it has the axis. These arguments, and
            all results, begin with these axes.
        aliases: pairs of indices of an argument and the result that reuses its memory.
        asynchronous: whether the call runs on another thread while the program continues.
        transforms: for functions that take them as last positional argument: the JAX
            transformations of the call, as pairs of a name and parameters; otherwise None.
        takes_device: whether the function takes ``device=``, the device of the call.
        partitioned: whether, in a program partitioned by XLA, each device calls the function with
            its shard.
        circuit: QNode in which the function is called, for errors; None outside of circuits.
        inferred: whether a call with zeros determined the result type, for errors.
    """

    public_name: str
    function: Callable[..., Any]
    in_tree: Any
    out_tree: Any
    result_avals: tuple[ShapedArray, ...]
    site: str = field(compare=False)
    missing_rule: str | None = field(default=None, compare=False)
    vmap_method: str | None = "sequential"
    loops: tuple[tuple[bool, ...], ...] = ()
    aliases: tuple[tuple[int, int], ...] = ()
    asynchronous: bool = False
    transforms: tuple[tuple[str, Any], ...] | None = None
    takes_device: bool = False
    partitioned: bool = False
    circuit: str | None = field(default_factory=current_circuit_name, compare=False)
    inferred: bool = field(default=False, compare=False)

    # `writes`: whether the function writes its results into arrays that it gets before its argument
    # leaves. `in_place`: whether all arrays are the program's own memory, not copies.
    writes = False
    in_place = False
    n_first = 0  # Number of arguments before the call's arguments.

    def __hash__(self) -> int:
        function = self.function
        # Bound methods are new objects at each attribute access.
        method = getattr(function, "__self__", None), getattr(function, "__func__", function)
        return hash((*map(id, method), self.public_name, self.in_tree, self.result_avals))

    def __repr__(self) -> str:
        return f"{self.public_name} {self.name}"

    @property
    def name(self) -> str:
        """Name of the user's function."""
        return function_name(self.function)

    @property
    def name_and_site(self) -> str:
        """Callback kind, function name and call site, for errors."""
        return f"{self.public_name} '{self.name}' (called from {self.site})"

    @property
    def description(self) -> str:
        """Name of the callback for notes on its exceptions, such as ``callback 'f'``.

        For functions of Bellhop that check or sample circuits, it is the QNode's description.
        """
        own = self._builtin_function
        if own is not None and own.is_of_circuit:
            return own.arguments[0]
        return f"callback '{self.name}'"

    @property
    def qualified_name(self) -> str:
        """Qualified name of the user's function."""
        return qualified_name(self.function)

    @property
    def is_sequential(self) -> bool:
        """Whether the function, under ``vmap``, is called once for each batch element."""
        return self.vmap_method in ("sequential", "sequential_unrolled", ON_THREADS)

    @property
    def program_loops(self) -> tuple[tuple[bool, ...], ...]:
        """Entries of `loops` (axes of ``vmap``) over which the compiled program loops.

        Empty if ``vmap_method`` is ``"sequential_threadpool"``: then the program makes one call
        with batched arrays, and Python calls the function for each element on threads.
        """
        return () if self.vmap_method == ON_THREADS else self.loops

    def drop_batch_dim(self) -> "CallbackTarget":
        """Return a copy of this callback for one element of the outermost mapped axis."""
        avals = tuple(ShapedArray(aval.shape[1:], aval.dtype) for aval in self.result_avals)
        return replace(self, result_avals=avals, loops=self.loops[1:])

    @property
    def can_run_on_thread_pool(self) -> bool:
        """Whether a thread pool may run the call while the program continues.

        The program awaits the call later, where it needs the results. False for functions that
        write into output buffers or take the device, and for asynchronous calls, which nothing
        awaits.
        """
        return not (self.writes or self.takes_device or self.asynchronous)

    def to_call_kind(self, kind: str) -> str:
        """Return the kind of ``callback.call`` in MLIR for this callback.

        It is `kind`, unless the callback is asynchronous: then it is ``"tap"``, a call that copies
        the arguments to a queue, after which the program continues.

        Args:
            kind: kind of the callback, a key of ``KINDS`` such as ``"pure"``.
        """
        return "tap" if self.asynchronous else kind

    def bind(self, workers: Workers | None = None) -> Callback:
        """Make the C++ object, a `Callback`, by which a program calls this function.

        Args:
            workers: thread pool; if given, and if `can_run_on_thread_pool`, the runtime may start
                calls on it and await them later. None if each call runs on the program's thread.
        """
        function: Callable[..., Any]
        if self.loops != self.program_loops:
            function = ThreadedBatchFunction(
                self._unbatched().bind(), self.loops, self.result_avals
            )
        else:
            function = self._as_leaf_function()
            if is_searching():
                n_outputs = len(self.result_avals) if self.writes else None
                function = check_results_in_search(function, self.name_and_site, n_outputs)
        if not isinstance(self.function, BuiltinFunction):
            function = forbid_gates(function, self.circuit)
        if workers is not None and self.can_run_on_thread_pool:
            function = StartableFunction(function, workers)
        return Callback(
            function=function,
            convert=self.convert,
            description=self.description,
            site=self.site,
            writes=self.writes,
            in_place=self.in_place,
            takes_device=self.takes_device,
            kind=self.public_name,
            name=self.name,
            definition=self.definition,
            bars=self.bars,
        )

    def _unbatched(self) -> "CallbackTarget":
        """Return the target for one element of all mapped axes."""
        return self.drop_batch_dim()._unbatched() if self.loops else self

    @property
    def _builtin_function(self) -> BuiltinFunction | None:
        """The `BuiltinFunction` that is called; None for a user's function.

        If the target's function is a wrapper (``__wrapped__``), the wrapped function counts.
        """
        own = getattr(self.function, "__wrapped__", self.function)
        return own if isinstance(own, BuiltinFunction) else None

    @property
    def prints(self) -> bool:
        """Whether this is a printing function of Bellhop, as for ``bellhop.debug.print``."""
        return self._builtin_function is not None and self._builtin_function.prints

    @property
    def bars(self) -> Any:
        """Progress bars of the loop whose iterations the function counts; else None."""
        return self.function.bars if isinstance(self.function, BuiltinFunction) else None

    @property
    def definition(self) -> str:
        """``file:line`` of the function's definition; for C functions, of its call."""
        site = definition_site(self.function)
        # Functions of extension modules have no definition site.
        return site if ":" in site else self.site

    @property
    def _takes_leaves(self) -> bool:
        """Whether each argument is a positional array or number, so that no pytrees are needed."""
        return self.in_tree == jax.tree.structure(((0,) * self.in_tree.num_leaves, {}))

    def _as_leaf_function(self) -> Callable[..., Any]:
        """Return the user's function as a function of leaves, for the runtime.

        It takes the leaves of the arguments and returns the result's leaf, or a tuple of its leaves
        if their number is not one. The user's function itself is returned if its arguments are
        single arrays and its result is one array or None.
        """
        one_leaf_out = self.out_tree == jax.tree.structure(0)
        no_result = self.out_tree.num_leaves == 0 and self.out_tree == jax.tree.structure(None)
        is_plain = self.transforms is None and not self.takes_device
        if is_plain and self._takes_leaves and (one_leaf_out or no_result):
            return self.function
        return self._call_with_trees

    def _call_with_trees(self, *leaves: Operand) -> Any:
        """Rebuild the arguments, call the user's function and flatten its result.

        Args:
            *leaves: argument leaves, followed by the device ordinal if `takes_device`.

        Returns:
            the result's leaf, or a tuple of its leaves if their number is not one. If no leaf is
            declared, the function's result is ignored.

        Raises:
            TypeError: if the result has another structure than declared.
        """
        if self.takes_device:
            *leaves, ordinal = leaves  # type: ignore[assignment]
        args, kwargs = jax.tree.unflatten(self.in_tree, leaves)
        if self.transforms is not None:
            args = (*args, self.transforms)
        if self.takes_device:
            kwargs["device"] = jax.local_devices(backend="cpu")[int(ordinal)]
        result = self.function(*args, **kwargs)
        if self.out_tree.num_leaves == 0:
            return ()
        try:
            flat = self.out_tree.flatten_up_to(result)
        except ValueError as error:
            _, structure = flatten_sortable(f"{self.public_name} '{self.name}': the result", result)
            observed, declared = describe_structures(structure, self.out_tree)
            returned = f"{self.public_name} '{self.name}' returned a value of structure {observed}"
            if self.inferred:
                raise self._inferred_mismatch(returned, declared) from error
            if result is None:
                raise self._missing_return_error(declared) from error
            raise TypeError(
                f"{returned}, declared {declared}. Return the declared structure, or declare the "
                "returned structure."
            ) from error
        return flat[0] if len(flat) == 1 else tuple(flat)

    def check_arguments(self, avals: Sequence[Any]) -> None:
        """Raise an error for argument dtypes that callbacks do not support, such as int1.

        ``avals`` are the types of the arguments' leaves. Random keys are supported.

        Raises:
            TypeError: naming the dtype.
        """
        for aval in avals:
            is_key = jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended)
            if not is_key and aval.dtype not in DTYPES:
                raise TypeError(
                    f"{self.name_and_site}: arrays of type "
                    f"{aval.dtype.name} are not supported by callbacks. Cast the argument to "
                    "another dtype, such as int8 or float32."
                )

    def batching_error(self) -> NotImplementedError:
        """Return the error for `vmap` of this callback, which has no `vmap_method`."""
        return NotImplementedError(
            f"{self.name_and_site} is mapped by vmap but has no vmap_method. Pass one, such as "
            "vmap_method='sequential', which calls the function once for each element."
        )

    def derivative_error(self) -> DifferentiableCompileError:
        """Return the error for the derivative of this callback, which lacks a rule."""
        what = self.name_and_site
        if self.missing_rule == "transpose":
            return DifferentiableCompileError(
                f"{what} is differentiated with respect to an argument in which the callback is "
                "not declared linear. If it is linear in this argument too, add the argument to "
                f"@{self.name}.transpose(argnums=...); else pass jax.lax.stop_gradient(value)."
            )
        if self.missing_rule is not None:
            return DifferentiableCompileError(
                f"{what} is differentiated but has no {self.missing_rule} rule. A derivative needs "
                f"both, fwd and bwd. Register the rule with @{self.name}.{self.missing_rule}."
            )
        return DifferentiableCompileError(
            f"{what} is differentiated but has no derivative rule. Register one with "
            f"@{self.name}.fwd and @{self.name}.bwd, or with @{self.name}.jvp; if the function is "
            "jax.jit-compatible, use bellhop.accelerate, which derives it."
        )

    def side_effect_error(self) -> DifferentiableCompileError:
        """Return the error for a derivative of this callback, which has side effects."""
        return DifferentiableCompileError(
            f"{self.name_and_site} has a differentiated argument, "
            "and callbacks with side effects have no derivative. Pass "
            "jax.lax.stop_gradient(value); if the function is pure, use bellhop.pure_callback, or "
            "for a C function native_callback without has_side_effect."
        )

    def transposition_error(self) -> DifferentiableCompileError:
        """Return the error for reverse mode through a callback that takes a tangent.

        Reverse mode transposes functions of tangents, and a callback has no transpose.
        """
        return DifferentiableCompileError(
            f"{self.name_and_site} gets a tangent, and reverse mode needs the transpose of the "
            "call, which is not defined. Use forward mode, or define reverse mode by "
            "jax.custom_vjp."
        )

    def tangent_error(self) -> DifferentiableCompileError:
        """Return the error for reverse mode through a report whose argument is a tangent.

        A report, such as a print, has no results. Reverse mode does not compute tangents, so there
        would be no value to report.
        """
        return DifferentiableCompileError(
            f"{self.name_and_site} has a tangent argument, which "
            "reverse mode does not compute. Use forward mode; to see cotangents, call the function "
            "in the backward pass of a jax.custom_vjp function."
        )

    def order_error(self) -> ValueError:
        """Return the error for `vmap` of this callback, which was declared ``ordered=True``."""
        return ValueError(
            f"{self.name_and_site} is ordered, and the order "
            "of calls under vmap is not defined. Use ordered=False, which calls it once for "
            "each element, or jax.lax.map, which has an order."
        )

    def convert(self, value: object, dtype: np.dtype, shape: tuple[int, ...], index: int) -> Any:
        """Convert a result leaf that is not exactly as declared to an array.

        The runtime calls this method for values that it cannot copy itself. JAX arrays, lists of
        numbers, Python numbers for a scalar, and dtypes that differ in JAX's 64-bit setting only
        are accepted; other dtypes are not cast.

        Args:
            value: leaf that the user's function returned.
            dtype: declared dtype.
            shape: declared shape.
            index: index of the leaf in the result.

        Returns:
            a NumPy array of the declared dtype and shape.

        Raises:
            TypeError: naming the callback, the declared and the returned type.
            OverflowError: for a Python integer that the dtype cannot hold.
            FloatingPointError: for a number that becomes infinite, under
                ``np.errstate(over="raise")``.
        """
        observed = describe_value(value)
        if value is None and not self.inferred and self.out_tree == jax.tree.structure(0):
            raise self._missing_return_error(_describe_type(dtype, shape))
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError(
                f"{self._describe_returned(observed, index)}, and masks are not supported. Return "
                "x.filled(number), or the data and the mask as two results."
            )
        if isinstance(value, np.generic) or not isinstance(value, bool | int | float | complex):
            try:
                array = np.asarray(value)
            except Exception as error:
                reason = str(error).splitlines()[0].rstrip(".")
                raise TypeError(
                    f"{self._describe_returned(observed, index)}, which cannot be converted "
                    f"to a NumPy array: {reason}. Return an array of the expected type "
                    f"{_describe_type(dtype, shape)}."
                ) from error
            # If JAX's 64-bit types are off, a 64-bit result is narrowed to 32 bits.
            if array.shape == shape and _canonicalize_dtype(array.dtype) == dtype:
                return cast_to_declared(
                    self._describe_returned(describe_value(array), index), self.site, array, dtype
                )
            if array.dtype.kind not in "OUS":
                observed = describe_value(array)
        elif shape == () and accepts_number(dtype, value):
            return cast_to_declared(
                self._describe_returned(observed, index), self.site, value, dtype
            )
        raise self._mismatch(observed, dtype, shape, index, suggest_type(value, shape))

    def _mismatch(
        self,
        observed: str,
        dtype: np.dtype,
        shape: tuple[int, ...],
        index: int,
        suggestion: str = "",
    ) -> TypeError:
        """Return the error for a result leaf of another type than declared.

        Args:
            observed: description of the returned value.
            dtype: declared dtype.
            shape: declared shape.
            index: index of the leaf in the result.
            suggestion: sentence to append, with a leading space; may be empty.
        """
        returned, expected = self._describe_returned(observed, index), _describe_type(dtype, shape)
        if self.inferred:
            return self._inferred_mismatch(returned, expected)
        return TypeError(
            f"{returned}, declared {expected}. Return the declared type, or change the "
            f"declaration.{suggestion}"
        )

    def _missing_return_error(self, declared: str) -> TypeError:
        """Return the error for a function that returned None; `declared` describes its result."""
        return TypeError(
            f"{self.public_name} '{self.name}' returned None, declared {declared}. Write a return "
            "statement at the end of each path, or call the function by bellhop.callback, which "
            "takes no result."
        )

    def _inferred_mismatch(self, returned: str, expected: str) -> TypeError:
        """Return the error for a result of another type than inferred.

        ``returned`` begins the message and describes the returned value; ``expected`` is the type,
        or structure, that the call with zeros returned.
        """
        return TypeError(
            f"{returned}, and {expected} when it was called with zeros (result_type=bellhop.infer)."
            " Declare the type, or return one type for all values."
        )

    def _describe_returned(self, observed: str, index: int) -> str:
        """Describe a returned value: "pure_callback 'f' returned float32[3] as result 1".

        Args:
            observed: description of the value, such as ``float32[3]``.
            index: index of the leaf in the result, named if there are several leaves.
        """
        which = f" as result {index}" if len(self.result_avals) > 1 else ""
        return f"{self.public_name} '{self.name}' returned {observed}{which}"


def flatten_arguments(
    callback_name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], Any]:
    """Flatten the arguments of a callback, pytrees of arrays and numbers.

    ``callback_name`` (the public function, such as ``pure_callback``) and ``function`` are for
    errors.

    Returns:
        the list of leaves, and the ``PyTreeDef`` of ``(args, kwargs)``.

    Raises:
        TypeError: naming the callback and the argument that is not an array, or is a mutable
            reference.
    """
    describe = functools.partial(describe_call, callback_name, function)
    check_no_references(describe, tuple(args), kwargs)
    leaves, in_tree = jax.tree.flatten((tuple(args), kwargs))
    if not all(map(is_array_like, leaves)):
        for path, leaf in jax.tree_util.tree_leaves_with_path((tuple(args), kwargs)):
            if not is_array_like(leaf):
                part, *rest = path
                leaf_path = jax.tree_util.keystr(tuple(rest))
                leaf_name = ("args" if part.idx == 0 else "kwargs") + leaf_path
                raise TypeError(
                    f"{describe()} "
                    f"takes arrays and numbers, and {leaf_name} is {describe_value(leaf)}. Bind "
                    "other arguments by functools.partial or in a closure."
                )
    return leaves, in_tree


def describe_call(callback_name: str, function: Callable[..., Any]) -> str:
    """Describe a callback and its call site for errors: ``pure_callback 'f' (called from a.py:3)``.

    The function's name is left out for Bellhop's own functions.

    Args:
        callback_name: name of the public function that the user called.
        function: the function that the callback will call.
    """
    name = "" if isinstance(function, BuiltinFunction) else f" '{function_name(function)}'"
    return f"{callback_name}{name} (called from {user_site()})"


def must_run_in_python(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Return whether a callback must call its function at once in Python, without JAX.

    True if no trace is active, and a leaf of the arguments is not an array for JAX, such as a
    tensor of another framework, which may be differentiating the function.
    """
    if not trace_state_clean():
        return False
    try:
        leaves = jax.tree.leaves((args, kwargs))
    except ValueError:
        # `flatten_arguments` names the dictionary whose keys JAX cannot sort.
        return False
    return not all(map(is_array_like, leaves))


def is_array_like(leaf: object) -> bool:
    """Return whether JAX accepts a pytree leaf as an array; False for masked arrays."""
    if isinstance(leaf, np.ma.MaskedArray):
        return False
    if isinstance(leaf, jax.Array | bool | int | float | complex):
        return True
    try:
        jax.typeof(leaf)
    except TypeError:
        return False
    return True


def describe_value(value: object) -> str:
    """Describe a value for errors: as ``float64[3]``, or by type, as ``a str``."""
    if isinstance(value, np.ma.MaskedArray):
        return f"a masked array {_describe_type(value.dtype, value.shape)}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return _describe_type(value.dtype, value.shape)
    if value is None:
        return "None"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _canonicalize_dtype(dtype: np.dtype) -> Any:
    """Narrow a dtype to 32 bits if JAX's 64-bit types are off; keep dtypes that JAX lacks."""
    return jax.dtypes.canonicalize_dtype(dtype) if dtype in DTYPES else dtype


def _describe_type(dtype: DTypeLike, shape: tuple[int, ...]) -> str:
    """Format dtype and shape as ``float64[3]``."""
    # Dtypes of random keys, and of other frameworks, are not NumPy dtypes.
    with contextlib.suppress(TypeError):
        # `dtype.name` does not show the byte order.
        dtype = np.dtype(dtype).name if np.dtype(dtype).isnative else str(dtype)
    return f"{dtype}[{','.join(map(str, shape))}]"
