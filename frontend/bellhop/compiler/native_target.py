"""C functions in programs: address of the code, and passing of arguments.

``NativeTarget.bind`` describes the C parameters of one call to the runtime. A function
``double f(double, const double*, int64_t)`` with the arguments ``f64[]`` and ``f64[3]``::

    [("value", 0, []), ("pointer", 1, []), ("constant", 0, [3])]
"""

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jax.core import ShapedArray

from bellhop._jax.slow_dispatch import is_searching
from bellhop.base.source import user_site
from bellhop.base.types import Operand
from bellhop.compiler.callback_target import CallbackTarget
from bellhop.compiler.invalid_results import check_results_in_search
from bellhop_runtime import Callback, NativeFunction, element_type

#: Parameters for an array argument: see `list_parameters`.
ARRAY_FORMS = ("pointer", "length", "shape", "strides")

Parameter = tuple[str, int, list[int]]

# By kind of native call: the kind of call that runs the same function through Python.
_CHECKED_KINDS = {"native": "pure", "native_io": "io"}


@dataclass(frozen=True)
class NativeSymbol:
    """A C function for ``native_callback``: its address and parameter types.

    Attributes:
        name: name for errors, pictures and profiles.
        address: address of the code in this process.
        library: the shared library, as the user named it; None for a function of this process.
        parameter_types: from the ``argtypes`` of a ``ctypes`` function: for each parameter the
            dtype that is passed by value, None for an address. None for a function without
            ``argtypes``, and for a symbol of a library.
        return_type: from ``restype`` of a ``ctypes`` function: the dtype of the returned value;
            None for void and addresses, and if `parameter_types` is None.
        pointees: for each parameter in `parameter_types` the dtype of the elements that it points
            to; None if it is passed by value or its pointer type does not name a dtype. None if
            `parameter_types` is None.
        owner: object that keeps the code loaded, such as a ``ctypes.CDLL``.
    """

    name: str
    address: int
    library: str | None = None
    parameter_types: tuple[np.dtype | None, ...] | None = field(default=None, compare=False)
    return_type: np.dtype | None = field(default=None, compare=False)
    pointees: tuple[np.dtype | None, ...] | None = field(default=None, compare=False)
    owner: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Pictures, profiles and errors read these attributes.
        for attribute, value in (("__name__", self.name), ("__qualname__", self.description)):
            object.__setattr__(self, attribute, value)

    @property
    def description(self) -> str:
        """Name of the function, with its library if it has one."""
        return self.name if self.library is None else f"{self.library}:{self.name}"

    def __call__(self, *args: Any) -> Any:
        """Raise an error: only compiled programs call the function."""
        raise TypeError(
            f"the native function '{self.name}' can be called by compiled programs only. Call the "
            "object that native_callback returned."
        )


def find_symbol(library: str, symbol: str) -> NativeSymbol:
    """Look up a function in a shared library, which the result keeps loaded.

    ``library`` is a path, or a name that the system's loader finds.

    Raises:
        OSError: if the library cannot be loaded.
        AttributeError: if it has no such symbol.
    """
    try:
        loaded = ctypes.CDLL(library)
    except OSError as error:
        raise OSError(
            f"native_callback (called from {user_site()}): the library {library!r} cannot be "
            f"loaded: {error}. Correct the path or name, or install what the library needs."
        ) from error
    try:
        function = getattr(loaded, symbol)
    except AttributeError as error:
        raise AttributeError(
            f"native_callback (called from {user_site()}): the library {library!r} has no symbol "
            f"{symbol!r}: {error}. Pass the name of a function that the library exports; C++ "
            'names are mangled, unless they are extern "C".'
        ) from error
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return NativeSymbol(symbol, address, library, owner=loaded)


@dataclass(frozen=True, repr=False)
class NativeTarget(CallbackTarget):
    """A C function that programs call without Python, with the types of one call.

    Made for each call of a ``native_callback`` in a traced program; the runtime calls the function
    at its address.

    Attributes:
        argument_avals: types of the arguments of one call, without batch axes.
        arrays: which C parameters an array has, one of ``ARRAY_FORMS``: ``"pointer"``: its pointer
            alone; ``"length"``: also the number of elements; ``"shape"``: also rank and shape;
            ``"strides"``: also the strides (`list_parameters`).
        returns_value: whether the only result is the value that the function returns.
        thread_safe: whether elements of a batch may be called at once on several threads.
        keep_subnormals: whether the function computes in the default floating-point environment,
            not in XLA's, in which subnormal numbers are zero.
    """

    argument_avals: tuple[ShapedArray, ...] = ()
    arrays: str = "length"
    returns_value: bool = False
    thread_safe: bool = False
    keep_subnormals: bool = False

    __hash__ = CallbackTarget.__hash__

    @property
    def program_loops(self) -> tuple[tuple[bool, ...], ...]:
        """Axes of ``vmap`` over which the compiled program loops: none, as the runtime does."""
        return ()

    @property
    def can_run_on_thread_pool(self) -> bool:
        """Whether a thread pool may run a call while the program continues: always False."""
        return False

    @property
    def row_avals(self) -> tuple[ShapedArray, ...]:
        """Types of the arguments and then of the results of one C call, without batch axes."""
        n_axes = len(self.loops)
        results = tuple(ShapedArray(aval.shape[n_axes:], aval.dtype) for aval in self.result_avals)
        return *self.argument_avals, *results

    def to_call_kind(self, kind: str) -> str:
        """Return the kind of call in MLIR: `kind`, unless JAX searches for a NaN or infinity.

        During that search, Python calls the C function and checks its results, so ``"native"``
        becomes ``"pure"`` and ``"native_io"`` becomes ``"io"``.
        """
        return _CHECKED_KINDS[kind] if is_searching() else kind

    def bind(self, workers: Any = None) -> Callback:
        """Return the `Callback` by which the program calls the C function.

        The runtime calls the C function without Python, except while JAX searches for a NaN or
        infinity: then the `Callback` has a Python function that calls the C function and checks its
        results.

        Args:
            workers: unused, as calls are not started on Python's threads.
        """
        del workers
        native = self._bind_native()
        if not is_searching():
            return native

        def call(*leaves: Operand) -> Any:
            """Call the C function; return its result, or a tuple if there are several."""
            results = [np.empty(aval.shape, aval.dtype) for aval in self.result_avals]
            native(list(leaves), results)
            return results[0] if len(results) == 1 else tuple(results)

        return Callback(
            function=check_results_in_search(call, self.name_and_site, None),
            convert=self.convert,
            description=self.description,
            site=self.site,
            kind=self.public_name,
            name=self.name,
            definition=self.definition,
        )

    def _bind_native(self) -> Callback:
        """Make the `Callback` of the C function, which the runtime calls without Python.

        The `Callback` has the function's address and a description of its C parameters.
        """
        assert isinstance(self.function, NativeSymbol)
        n_arguments = len(self.argument_avals)
        batch_shape = list(self.result_avals[0].shape[: len(self.loops)]) if self.loops else []
        operands = []
        for index, aval in enumerate(self.row_avals):
            is_result = index >= n_arguments
            is_mapped = [is_result or loop[index] for loop in self.loops]
            dtype = np.dtype(aval.dtype)
            operands.append((element_type(dtype), math.prod(aval.shape), dtype.itemsize, is_mapped))
        native = NativeFunction(
            address=self.function.address,
            parameters=list_parameters(
                self.row_avals, n_arguments, self.arrays, self.returns_value
            ),
            operands=operands,
            n_arguments=n_arguments,
            returns_value=self.returns_value,
            batch_shape=batch_shape,
            is_thread_safe=self.thread_safe,
            keeps_subnormals=self.keep_subnormals,
        )
        return Callback(
            function=self.function,
            convert=self.convert,
            description=self.description,
            site=self.site,
            kind=self.public_name,
            name=self.name,
            definition=self.function.description,
            native=native,
        )


def is_passed_by_value(aval: Any) -> bool:
    """Return whether C takes an argument of a type by value: a bool, integer or float scalar.

    The dtypes are NumPy's. Arrays, and scalars such as complex and bfloat16, are passed by pointer.
    """
    return aval.shape == () and np.dtype(aval.dtype).kind in "biuf"


def list_parameters(
    avals: Sequence[Any], n_arguments: int, arrays: str, returns_value: bool
) -> list[Parameter]:
    """Return the C parameters of a call, in the order of the C function's signature.

    Args:
        avals: types of the arguments, then of the results.
        n_arguments: number of arguments in `avals`.
        arrays: parameters for an array, one of ``ARRAY_FORMS``: ``"pointer"``: its pointer alone;
            ``"length"``: pointer and number of elements; ``"shape"``: pointer, rank and shape;
            ``"strides"``: also its strides in bytes. A scalar has a pointer alone; a scalar
            argument whose type is passed by value (`is_passed_by_value`) has kind ``"value"``.
        returns_value: whether the result is the returned value, not a parameter.

    Returns:
        for each parameter its kind (``"value"``, ``"pointer"``, ``"constant"`` or ``"constants"``),
        the index of its array in `avals` (0 for constants), and the constants.
    """
    parameters: list[Parameter] = []
    passed = avals[:n_arguments] if returns_value else avals
    for index, aval in enumerate(passed):
        if index < n_arguments and is_passed_by_value(aval):
            parameters.append(("value", index, []))
            continue
        parameters.append(("pointer", index, []))
        if aval.shape == ():
            continue
        shape = list(map(int, aval.shape))
        if arrays == "length":
            parameters.append(("constant", 0, [math.prod(shape)]))
        elif arrays in ("shape", "strides"):
            parameters.append(("constant", 0, [len(shape)]))
            parameters.append(("constants", 0, shape))
        if arrays == "strides":
            item = np.dtype(aval.dtype).itemsize
            strides = [item * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
            parameters.append(("constants", 0, strides))
    return parameters
