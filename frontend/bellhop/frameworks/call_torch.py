"""`call_torch`: differentiable PyTorch functions and modules in programs."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.tree_util import PyTreeDef

from bellhop.arguments.declared_types import MISSING, array_type, result_avals
from bellhop.arguments.structure_difference import describe_structures
from bellhop.base.pickling import PickledByName
from bellhop.base.public_function import public_function
from bellhop.base.source import definition_site, function_name
from bellhop.base.types import Args, Kwargs, PyTree
from bellhop.callbacks.bound_methods import bind_method
from bellhop.callbacks.vmap_method import check_vmap_method
from bellhop.errors import CompileError
from bellhop.frameworks.torch_functions import PrimalFunction
from bellhop.frameworks.torch_modes import TorchModes
from bellhop.frameworks.torch_primitive import call_differentiable, make_call
from bellhop.frameworks.torch_tensors import (
    import_torch,
    infer_with_fake_tensors,
    numpy_dtype,
    to_array,
    to_tensor,
    torch_dtype,
)


class TorchFunction(PickledByName):
    """A PyTorch function or module that traced code can call: made by ``call_torch``.

    A call in a compiled program is a callback to Python: the program passes arrays, PyTorch gets
    them as tensors, and computes the derivatives too.

    Args:
        function: the PyTorch function or module.
        result_type: declared result type, as for ``pure_callback``; ``MISSING`` to infer it.
        vmap_method: behaviour under ``vmap``, as for ``pure_callback``.

    Example:
        >>> import bellhop, torch
        >>> relu = bellhop.call_torch(torch.nn.functional.relu)
        >>> relu(-1.0)
        Array(0., dtype=float64)
    """

    def __init__(self, function: Callable[..., Any], result_type: Any, vmap_method: str) -> None:
        torch = import_torch()
        name = function_name(function)
        check_vmap_method(vmap_method, f"call_torch '{name}'")
        is_module = isinstance(function, torch.nn.Module)
        if not is_module:
            functools.update_wrapper(self, function)
        self.__name__ = name
        self._function = function
        self._module = function if is_module else None
        self._vmap_method = vmap_method
        self._declared = None if result_type is MISSING else result_avals(function, result_type)
        # Function, result types and result structure, by modes, structure and types of the
        # arguments.
        self._calls: dict[Any, tuple[PrimalFunction, tuple[ShapedArray, ...], Any]] = {}

    def __repr__(self) -> str:
        return f"<call_torch '{self.__name__}'>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; a module uses its current parameters."""
        return self._call(None, args, kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> "TorchFunction":
        function = bind_method(self._function, instance, owner)
        if instance is None or function is self._function:
            return self
        method = self._duplicate()
        method._function = function
        method._calls = {}
        return method

    def apply(self, parameters: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Call the PyTorch module with parameters from a dictionary.

        Args:
            parameters: arrays by name, as from ``parameters()``; missing parameters use the
                module's values.
            args: positional arguments of the module.
            kwargs: keyword arguments of the module.

        Returns:
            the module's result, differentiable in the parameters too.

        Raises:
            TypeError: if this is not a module.
            ValueError: naming parameters that the module does not have.

        Example:
            >>> import bellhop, jax.numpy as jnp, torch
            >>> layer = bellhop.call_torch(torch.nn.Linear(2, 1, dtype=torch.float64))
            >>> weights = {"weight": jnp.ones((1, 2)), "bias": jnp.zeros(1)}
            >>> layer.apply(weights, jnp.array([1.0, 2.0]))
            Array([3.], dtype=float64)
        """
        self._check_parameter_names(parameters)
        return self._call(dict(parameters), args, kwargs)

    def parameters(self) -> dict[str, jax.Array]:
        """Return copies of the PyTorch module's parameters by name, for ``apply``.

        Returns:
            a dictionary of arrays with the shapes and dtypes of PyTorch.

        Raises:
            TypeError: if this is not a module.

        Example:
            >>> import bellhop, torch
            >>> layer = bellhop.call_torch(torch.nn.Linear(2, 1))
            >>> {name: value.shape for name, value in layer.parameters().items()}
            {'weight': (1, 2), 'bias': (1,)}
        """
        named = self._own_module().named_parameters()
        return {name: jnp.array(to_array(parameter)) for name, parameter in named}

    def update(self, parameters: Mapping[str, Any]) -> None:
        """Copy values into the PyTorch module's parameters, in place.

        Args:
            parameters: arrays by name, as from ``parameters()``; missing parameters keep their
                values.

        Raises:
            TypeError: if this is not a module.
            ValueError: naming parameters that the module does not have.

        Example:
            >>> import bellhop, torch
            >>> module = torch.nn.Linear(2, 1)
            >>> bellhop.call_torch(module).update({"bias": [0.5]})
            >>> module.bias.tolist()
            [0.5]
        """
        torch = import_torch()
        self._check_parameter_names(parameters)
        own = dict(self._own_module().named_parameters())
        with torch.no_grad():
            for name, value in parameters.items():
                own[name].copy_(to_tensor(np.array(value)))

    def _check_parameter_names(self, parameters: Mapping[str, Any]) -> None:
        """Check that the PyTorch module has a parameter for each key of a dictionary.

        Raises:
            ValueError: for unknown names; lists the module's names.
            TypeError: if this is a function, not a module.
        """
        names = [name for name, _ in self._own_module().named_parameters()]
        unknown = sorted(set(parameters) - set(names))
        if unknown:
            raise ValueError(
                f"call_torch: '{self.__name__}' has no parameters {unknown}, expected some of "
                f"{names}."
            )

    def _own_module(self) -> Any:
        """Return the PyTorch module that the user passed to ``call_torch``.

        Raises:
            TypeError: if the user passed a function, not a module.
        """
        if self._module is None:
            raise TypeError(
                f"call_torch: '{self.__name__}' is a function without "
                "parameters. Pass a torch.nn.Module to call_torch."
            )
        return self._module

    def _call(self, parameters: dict[str, Any] | None, args: Args, kwargs: Kwargs) -> Any:
        """Trace a call of the function or module; return its result, a pytree of arrays.

        `_prepare` runs once for each signature: tree structure, shapes and dtypes of the arguments,
        and PyTorch's current modes.

        Args:
            parameters: the module's parameters by name; None to use its current parameters.
            args: positional arguments of the function or module.
            kwargs: keyword arguments of the function or module.
        """
        leaves, in_tree = jax.tree.flatten((parameters, args, kwargs))
        avals = [jax.typeof(leaf) for leaf in leaves]
        modes = TorchModes.current()
        key = modes, in_tree, tuple((aval.shape, aval.dtype) for aval in avals)
        if key not in self._calls:
            self._calls[key] = self._prepare(in_tree, avals, modes)
        function, avals_out, out_tree = self._calls[key]
        results = call_differentiable(make_call(function, avals_out, self._vmap_method), *leaves)
        return jax.tree.unflatten(out_tree, results)

    def _prepare(
        self, in_tree: PyTreeDef, avals: Sequence[Any], modes: TorchModes
    ) -> tuple[PrimalFunction, tuple[ShapedArray, ...], Any]:
        """Make the function from argument leaves to result leaves for one signature.

        The types of the result leaves are the types that the user declared; without a declaration,
        they are inferred.

        Args:
            in_tree: tree structure of ``(parameters, args, kwargs)``.
            avals: types of the argument leaves.
            modes: PyTorch's modes in which the function is called.

        Returns:
            the function from argument leaves to result leaves, the types of the result leaves, and
            the result's ``PyTreeDef``.

        Raises:
            TypeError: if PyTorch does not have a dtype of an argument.
            CompileError: if the result types cannot be inferred.
        """
        for aval in avals:
            torch_dtype(aval.dtype)
        mutates = False
        if self._declared is None:
            avals_out, out_tree, mutates = self._infer(in_tree, avals)
        else:
            avals_out, out_tree = self._declared

        def call(*tensors: Any) -> list[Any]:
            """Call the user's function with flat tensors, when the program runs.

            It takes the leaves of ``(parameters, args, kwargs)`` and returns the leaves of the
            result, tensors.

            Raises:
                TypeError: if the result has another structure than was declared or inferred, or
                    another type than was inferred because PyTorch's default dtype has changed.
            """
            result = self._evaluate(in_tree, tensors, {})
            try:
                leaves = out_tree.flatten_up_to(result)
            except ValueError as error:
                returned, expected = describe_structures(jax.tree.structure(result), out_tree)
                raise TypeError(
                    f"call_torch '{self.__name__}' returned a value of structure {returned}, "
                    f"expected {expected}. Return the expected structure for all arguments, or "
                    "declare another result_type."
                ) from error
            results = list(map(_as_tensor, leaves))
            if self._declared is None:
                self._check_default_dtype(results, avals_out, modes)
            return results

        return PrimalFunction(self.__name__, call, modes, mutates=mutates), avals_out, out_tree

    def _check_default_dtype(
        self, results: Sequence[Any], avals: Sequence[ShapedArray], modes: TorchModes
    ) -> None:
        """Raise `TypeError` if a new default dtype of PyTorch changed a result's type.

        Args:
            results: tensors that the function returned, when the program runs.
            avals: types of the results, which were inferred when the function was traced.
            modes: PyTorch's modes at that time.
        """
        default_dtype = import_torch().get_default_dtype()
        if default_dtype == modes.default_dtype:
            return
        for result, aval in zip(results, avals, strict=True):
            found = jax.dtypes.canonicalize_dtype(numpy_dtype(result.dtype))
            if found != aval.dtype:
                raise TypeError(
                    f"call_torch '{self.__name__}': the result has type {found}, expected "
                    f"{aval.dtype}: PyTorch's default dtype was {modes.default_dtype} when the "
                    f"program was traced, and is {default_dtype}. Set the same default dtype, or "
                    "pass a dtype to the tensors that the function creates."
                )

    def _evaluate(self, in_tree: PyTreeDef, tensors: Sequence[Any], state: dict[str, Any]) -> Any:
        """Call the user's function, or the module with other parameters and buffers.

        Args:
            in_tree: tree structure of ``(parameters, args, kwargs)``; the parameters may be None.
            tensors: its leaves.
            state: parameters and buffers of the module by name, which `parameters` override; empty
                to use the module's own.

        Returns:
            the result, in which PyTorch's tuple classes are plain tuples.
        """
        parameters, args, kwargs = jax.tree.unflatten(in_tree, tensors)
        state = {**state, **(parameters or {})}
        if self._module is None or not state:
            return _as_pytree(self._function(*args, **kwargs))
        torch = import_torch()
        module = self._module
        if isinstance(module, torch.jit.ScriptModule):
            # functional_call does not support TorchScript modules, but modules that contain them.
            module = torch.nn.ModuleDict({"module": module})
            module.forward = module["module"].forward
            state = {f"module.{name}": value for name, value in state.items()}
        return _as_pytree(torch.func.functional_call(module, state, args, kwargs))

    def _infer(
        self, in_tree: PyTreeDef, avals: Sequence[Any]
    ) -> tuple[tuple[ShapedArray, ...], Any, bool]:
        """Infer the result types by running the user's function on tensors without data.

        Args:
            in_tree: tree structure of ``(parameters, args, kwargs)``.
            avals: types of its leaves.

        Returns:
            types of the result's leaves, the result's ``PyTreeDef``, and whether the function
            changed an argument in place.

        Raises:
            CompileError: if the function cannot run without data.
        """

        def call_module(tensors: Sequence[Any], state: dict[str, Any]) -> Any:
            """Call the user's function with argument leaves, the module with this state."""
            return self._evaluate(in_tree, tensors, state)

        try:
            result, mutates = infer_with_fake_tensors(call_module, avals, self._module)
        except Exception as error:
            problem = str(error).rstrip(".")
            raise CompileError(
                f"call_torch: the result type of '{self.__name__}' "
                f"({definition_site(self._function)}) is inferred with tensors without "
                f"data, which failed: {type(error).__name__}: {problem}. If the "
                "function needs data, declare the type: call_torch(fn, result_type=...)."
            ) from error
        leaves, out_tree = jax.tree.flatten(result)
        return tuple(self._get_aval(leaf) for leaf in leaves), out_tree, mutates

    def _get_aval(self, leaf: object) -> ShapedArray:
        """Return the type that a leaf of the user's result has in programs.

        For example ``float32[3]`` for a float64 tensor, without JAX's 64-bit types.

        Args:
            leaf: a leaf of the function's result.

        Raises:
            TypeError: unless the leaf is a tensor or a Python number.
        """
        torch = import_torch()
        if isinstance(leaf, torch.Tensor):
            dtype = numpy_dtype(leaf.dtype)
            where = f"call_torch: '{self.__name__}' ({definition_site(self._function)})"
            return array_type(where, leaf.shape, jax.dtypes.canonicalize_dtype(dtype))
        if isinstance(leaf, bool | int | float | complex):
            return ShapedArray((), jax.dtypes.canonicalize_dtype(np.result_type(leaf)))
        raise TypeError(
            f"call_torch: '{self.__name__}' returns {leaf!r} of type {type(leaf).__name__}, "
            "expected tensors, numbers, or a pytree of these."
        )


def _as_pytree(result: PyTree) -> Any:
    """Convert PyTorch's tuple classes in a result to plain tuples, at any depth.

    For example ``torch.max(x, 0)`` returns a ``torch.return_types.max``, which becomes a tuple.
    """
    return jax.tree.map(
        lambda leaf: tuple(map(_as_pytree, leaf)) if isinstance(leaf, tuple) else leaf, result
    )


def _as_tensor(leaf: object) -> Any:
    """Convert a Python number to a PyTorch tensor; return other values unchanged."""
    torch = import_torch()
    if isinstance(leaf, bool | int | float | complex):
        return torch.tensor(leaf, dtype=torch_dtype(np.result_type(leaf)))
    return leaf


@public_function
def call_torch(
    fn: Callable[..., Any] | None = None,
    result_type: Any = MISSING,
    *,
    vmap_method: str = "sequential",
) -> Any:
    """Make a PyTorch function or module callable from compiled programs.

    Its arguments are tensors that share the program's memory. Derivatives of any order, forward and
    reverse, are computed by PyTorch; each runs the function again. The function must be pure, as
    for ``pure_callback``.

    A module uses its parameters at the time of the call, without differentiating them. To train it,
    pass the parameters as an argument: ``f.parameters()`` returns them by name,
    ``f.apply(parameters, *args)`` calls the module with them, and ``f.update(parameters)`` stores
    them in the module.

    The function runs with the autocast and default device that were set when it was traced, and
    outside of ``torch.inference_mode`` and ``torch.no_grad``: the program determines the
    derivatives.

    Args:
        fn: the function or ``torch.nn.Module``, of pytrees of tensors on the CPU.
        result_type: result type as for ``pure_callback``. By default, the function is run once for
            each new signature on tensors without data.
        vmap_method: behaviour under ``vmap``, as for ``pure_callback``; derivatives get mapped
            arguments of full length even where the method uses length 1.

    Returns:
        a ``TorchFunction`` of pytrees of arrays; without ``fn``, a decorator.

    Raises:
        ImportError: without PyTorch, which is in the extra ``torch``.
        TypeError: if ``fn`` is not callable, or a dtype does not exist in PyTorch.
        CompileError: when traced, if the function does not run on tensors without data.

    Example:
        >>> import bellhop, torch
        >>> @bellhop.call_torch
        ... def softplus(x):
        ...     return torch.nn.functional.softplus(x)
        >>> bellhop.qjit(bellhop.grad(softplus))(0.0)
        Array(0.5, dtype=float64)
    """
    if fn is None:
        return functools.partial(call_torch, result_type=result_type, vmap_method=vmap_method)
    if not callable(fn):
        raise TypeError(f"call_torch takes a PyTorch function or module, got {fn!r}.")
    return TorchFunction(fn, result_type, vmap_method)
