"""The Python side of one callback: what the runtime calls, and what it may return."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.typing import DTypeLike

from bellhop._jax.private import trace_state_clean
from bellhop.arguments.flat_tree import describe_structure
from bellhop.base.source import definition_site, function_name, qualified_name
from bellhop.base.types import Operand
from bellhop.compiler.batching import ThreadedBatchFunction
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.callback_hints import suggest_type
from bellhop.compiler.gates_in_callbacks import current_circuit_name, forbid_gates
from bellhop.compiler.overflow_checks import accepts_number, cast_to_declared
from bellhop.concurrency.workers import StartableFunction, Workers
from bellhop.errors import DifferentiableCompileError
from bellhop_runtime import DTYPES, Callback

# The method of vmap that calls for the elements of a mapped axis on threads.
ON_THREADS = "sequential_threadpool"


@dataclass(frozen=True)
class CallbackTarget:
    """A Python function as a program sees it.

    Two targets are equal where they call the same function with the same structure, so
    that equal pure calls can be merged.

    Attributes:
        flavour: what the user called to make it, e.g. ``pure_callback``; errors say it.
        function: the user's function, called with ``(args, kwargs)`` of ``in_tree``.
        in_tree: structure of ``(args, kwargs)``.
        out_tree: structure of the result.
        result_avals: shapes and dtypes of the leaves of the result.
        site: ``file:line`` of the user's call.
        missing_rule: which derivative rule the user registered too little of, if any.
        vmap_method: how it meets a mapped axis, such as ``"sequential"``; None if it may not.
        loops: for each mapped axis that it is called for one by one, outermost first, which
            arguments have it; they, and all results, begin with these axes.
        aliases: pairs of an argument and the result that is written in its memory.
        asynchronous: whether the program leaves the call to another thread and goes on.
        transforms: what the call has been through, for a function that takes that as its last
            positional argument: pairs of a name and parameters.  None where it does not.
        takes_device: whether the function is given ``device=``, the device of the call.
        partitioned: whether each device of a program that XLA partitions calls it, with its
            own part of the arguments.
        circuit: the QNode that it is called in, for errors; None outside of one.
        inferred: whether a call with zeros said what it returns, for errors.
    """

    flavour: str
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

    # Whether the function writes its results into arrays that it is given before the leaves,
    # and whether all of these are the program's own memory.
    writes = False
    in_place = False
    n_first = 0  # Arguments that the function gets before those of the call.

    def __hash__(self) -> int:
        function = self.function
        # A method is made anew each time that it is looked up.
        method = getattr(function, "__self__", None), getattr(function, "__func__", function)
        return hash((*map(id, method), self.flavour, self.in_tree, self.result_avals))

    def __repr__(self) -> str:
        return f"{self.flavour} {self.name}"

    @property
    def name(self) -> str:
        """The name of the user's function."""
        return function_name(self.function)

    @property
    def name_and_site(self) -> str:
        """What is called, and from where, for errors."""
        return f"{self.flavour} '{self.name}' (called from {self.site})"

    @property
    def description(self) -> str:
        """What raised, in the note that the run adds to an exception."""
        own = self._builtin_function
        if own is not None and own.is_of_circuit:
            return own.arguments[0]
        return f"callback '{self.name}'"

    @property
    def qualified_name(self) -> str:
        """The qualified name of the user's function."""
        return qualified_name(self.function)

    @property
    def is_sequential(self) -> bool:
        """Whether it is called for the elements of a mapped axis one by one."""
        return self.vmap_method in ("sequential", "sequential_unrolled", ON_THREADS)

    @property
    def program_loops(self) -> tuple[tuple[bool, ...], ...]:
        """Those of the mapped axes that the program loops over; the call goes over others."""
        return () if self.vmap_method == ON_THREADS else self.loops

    def drop_batch_dim(self) -> "CallbackTarget":
        """Return what is called for one element of the outermost of the loops."""
        avals = tuple(ShapedArray(aval.shape[1:], aval.dtype) for aval in self.result_avals)
        return replace(self, result_avals=avals, loops=self.loops[1:])

    @property
    def can_start(self) -> bool:
        """Whether the runtime may start a call, and ask for its results later."""
        return not (self.writes or self.takes_device or self.asynchronous)

    def bind(self, workers: Workers | None = None) -> Callback:
        """Return what the runtime calls, or, with ``workers``, may start."""
        function: Callable[..., Any]
        if self.loops != self.program_loops:
            function = ThreadedBatchFunction(
                self._unbatched().bind(), self.loops, self.result_avals
            )
        else:
            function = self._leaf_function()
        if not isinstance(self.function, BuiltinFunction):
            function = forbid_gates(function, self.circuit)
        if workers is not None and self.can_start:
            function = StartableFunction(function, workers)
        return Callback(
            function=function,
            convert=self.convert,
            description=self.description,
            site=self.site,
            writes=self.writes,
            in_place=self.in_place,
            takes_device=self.takes_device,
            kind=self.flavour,
            name=self.name,
            definition=self._definition,
            bars=self.bars,
        )

    def _unbatched(self) -> "CallbackTarget":
        return self.drop_batch_dim()._unbatched() if self.loops else self

    @property
    def _builtin_function(self) -> BuiltinFunction | None:
        """The function, where it is bellhop's own, which may stand in others."""
        own = getattr(self.function, "__wrapped__", self.function)
        return own if isinstance(own, BuiltinFunction) else None

    @property
    def prints(self) -> bool:
        """Whether the function prints for us."""
        return self._builtin_function is not None and self._builtin_function.prints

    @property
    def bars(self) -> Any:
        """The bars of the loop that the function counts, if it does."""
        return self.function.bars if isinstance(self.function, BuiltinFunction) else None

    @property
    def _definition(self) -> str:
        site = definition_site(self.function)
        # What is not written in Python is known by where it is called.
        return site if ":" in site else self.site

    @property
    def _takes_leaves(self) -> bool:
        return self.in_tree == jax.tree.structure(((0,) * self.in_tree.num_leaves, {}))

    def _leaf_function(self) -> Callable[..., Any]:
        """Return the function of leaves: leaves in, a leaf or a tuple of leaves out."""
        one_leaf_out = self.out_tree == jax.tree.structure(0)
        no_result = self.out_tree.num_leaves == 0 and self.out_tree == jax.tree.structure(None)
        is_plain = self.transforms is None and not self.takes_device
        if is_plain and self._takes_leaves and (one_leaf_out or no_result):
            return self.function
        return self._call_with_trees

    def _call_with_trees(self, *leaves: Operand) -> Any:
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
            observed = describe_structure(jax.tree.structure(result))
            returned = f"{self.flavour} '{self.name}' returned a value of structure {observed}"
            declared = describe_structure(self.out_tree)
            if self.inferred:
                raise self._inferred_mismatch(returned, declared) from error
            raise TypeError(
                f"{returned}, declared {declared}. Return what was declared, or declare what is "
                "returned."
            ) from error
        return flat[0] if len(flat) == 1 else tuple(flat)

    def check_arguments(self, avals: Sequence[Any]) -> None:
        """Refuse arguments of types that have no operations in JAX, such as int1."""
        for aval in avals:
            is_key = jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended)
            if not is_key and aval.dtype not in DTYPES:
                raise TypeError(
                    f"{self.name_and_site} is given an array "
                    f"of type {aval.dtype.name}, which callbacks do not take. Cast the argument."
                )

    def batching_error(self) -> NotImplementedError:
        """Return the error for a mapped axis that nobody said how to meet."""
        return NotImplementedError(
            f"{self.name_and_site} is mapped by vmap, and "
            "nothing says how it meets a mapped axis. Give it a vmap_method, for example "
            "vmap_method='sequential', which calls it once for each element."
        )

    def derivative_error(self) -> DifferentiableCompileError:
        """Return the error for a derivative that nobody defined."""
        what = self.name_and_site
        if self.missing_rule == "transpose":
            return DifferentiableCompileError(
                f"{what} is differentiated with respect to an argument in which it is not declared "
                "linear. Add the argument to argnums of its transpose, or pass "
                "jax.lax.stop_gradient(value)."
            )
        if self.missing_rule is not None:
            return DifferentiableCompileError(
                f"{what} is differentiated but has no {self.missing_rule} rule. A derivative "
                f"needs both: register the other one with @{self.name}.{self.missing_rule}."
            )
        return DifferentiableCompileError(
            f"{what} is differentiated but has no derivative rule. Register one with "
            f"@{self.name}.fwd and @{self.name}.bwd, or with @{self.name}.jvp; if the function is "
            "jax.jit-compatible, use bellhop.accelerate, which derives it."
        )

    def side_effect_error(self) -> DifferentiableCompileError:
        """Return the error for a differentiated value that meets a side effect."""
        return DifferentiableCompileError(
            f"{self.name_and_site} is given a differentiated "
            "value, and what has side effects has no derivative. Give it "
            "jax.lax.stop_gradient(value), or use bellhop.pure_callback where the function is "
            "pure."
        )

    def tangent_error(self) -> DifferentiableCompileError:
        """Return the error for a tap of a tangent in reverse mode."""
        return DifferentiableCompileError(
            f"{self.name_and_site} is given a tangent, which "
            "reverse mode never computes. To see cotangents, call it in the backward pass of a "
            "jax.custom_vjp function."
        )

    def order_error(self) -> ValueError:
        """Return the error for mapped calls, which have no order that the program defines."""
        return ValueError(
            f"{self.name_and_site} is ordered, and the order "
            "of calls under vmap is not defined. Use ordered=False, which calls it once for "
            "each element, or jax.lax.map, which has an order."
        )

    def convert(self, value: object, dtype: np.dtype, shape: tuple[int, ...], index: int) -> Any:
        """Return a result leaf, which is not exactly as declared, as an array that is.

        JAX arrays and lists of numbers are arrays in another coat and are taken; nothing
        is cast.

        Raises:
            TypeError: naming the callback, what was declared and what was returned.
        """
        observed = describe_value(value)
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError(
                f"{self._describe_returned(observed, index)}, whose mask a program has no place "
                f"for. Return "
                "x.filled(number), or the data and the mask as two results."
            )
        if isinstance(value, np.generic) or not isinstance(value, bool | int | float | complex):
            try:
                array = np.asarray(value)
            except Exception as error:
                reason = str(error).splitlines()[0].rstrip(".")
                raise TypeError(
                    f"{self._describe_returned(observed, index)}, which is no NumPy array and "
                    f"cannot become "
                    f"one: {reason}. Return {_describe_type(dtype, shape)}, as declared."
                ) from error
            # Where JAX's 64-bit types are off, a 64-bit array means the 32-bit one.
            if array.shape == shape and _canonical(array.dtype) == dtype:
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
        returned, expected = self._describe_returned(observed, index), _describe_type(dtype, shape)
        if self.inferred:
            return self._inferred_mismatch(returned, expected)
        return TypeError(
            f"{returned}, declared {expected}. Change the declared type or cast the result."
            f"{suggestion}"
        )

    def _inferred_mismatch(self, returned: str, expected: str) -> TypeError:
        return TypeError(
            f"{returned}, and for zeros, with result_type=bellhop.infer, {expected}. Declare the "
            "type, or return one type for all values."
        )

    def _describe_returned(self, observed: str, index: int) -> str:
        which = f" as result {index}" if len(self.result_avals) > 1 else ""
        return f"{self.flavour} '{self.name}' returned {observed}{which}"


def flatten_arguments(
    callback_name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], Any]:
    """Return the leaves and the structure of the arguments of a callback.

    Raises:
        TypeError: naming the callback and the argument that is no array.
    """
    leaves, in_tree = jax.tree.flatten((tuple(args), kwargs))
    if not all(map(is_array_like, leaves)):
        for path, leaf in jax.tree_util.tree_leaves_with_path((tuple(args), kwargs)):
            if not is_array_like(leaf):
                part, *rest = path
                where = ("args" if part.idx == 0 else "kwargs") + jax.tree_util.keystr(tuple(rest))
                raise TypeError(
                    f"{callback_name} '{function_name(function)}' takes arrays and numbers, and "
                    f"{where} is {describe_value(leaf)}. Give the function what it needs of that "
                    f"kind "
                    "beforehand, with functools.partial or in a closure."
                )
    return leaves, in_tree


def must_run_in_python(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Tell whether a call, outside of tracing, has arguments that JAX does not know.

    Such are tensors of other frameworks, which may be differentiating the function.
    """
    return trace_state_clean() and not all(map(is_array_like, jax.tree.leaves((args, kwargs))))


def is_array_like(leaf: object) -> bool:
    """Tell whether JAX takes a leaf for an array."""
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
    """Describe a value by dtype and shape, or by its type."""
    if isinstance(value, np.ma.MaskedArray):
        return f"a masked array {_describe_type(value.dtype, value.shape)}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return _describe_type(value.dtype, value.shape)
    if value is None:
        return "None"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _canonical(dtype: np.dtype) -> Any:
    return jax.dtypes.canonicalize_dtype(dtype) if dtype in DTYPES else dtype


def _describe_type(dtype: DTypeLike, shape: tuple[int, ...]) -> str:
    # Types of random keys, and of other frameworks, are none of NumPy's.
    with contextlib.suppress(TypeError):
        # The name of one in another byte order is that of the native one.
        dtype = np.dtype(dtype).name if np.dtype(dtype).isnative else str(dtype)
    return f"{dtype}[{','.join(map(str, shape))}]"
