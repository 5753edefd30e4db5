"""Callback of an XLA FFI handler: ``jax.ffi.ffi_call`` with derivatives and errors."""

import itertools
from collections.abc import Sequence
from typing import Any

import jax

from bellhop.arguments.declared_types import MISSING
from bellhop.callbacks.pure_callback import PureCallback
from bellhop.compiler.callback_target import flatten_arguments
from bellhop.errors import ResultTypeError

_numbers = itertools.count()
# By the capsule's id; the capsule is kept, as XLA has no way to unregister a handler.
_registered: dict[int, tuple[str, Any]] = {}


class FfiCallback(PureCallback[..., Any]):
    """An XLA FFI handler that traced code can call: made by ``native_callback``.

    Derivative rules are registered as for ``pure_callback``.

    Args:
        capsule: a ``PyCapsule`` with the handler's address, for the CPU.
        result_type: type of the result, as in ``pure_callback``.
        has_side_effect: whether calls have side effects, so that they must not be dropped.

    Raises:
        ResultTypeError: if the result type is missing or not usable.
    """

    def __init__(self, capsule: Any, result_type: Any, *, has_side_effect: bool) -> None:
        if result_type is MISSING:
            raise ResultTypeError(
                "native_callback of an FFI handler has no result type. Pass result_type, such as "
                "jax.ShapeDtypeStruct(shape, dtype)."
            )
        self._target_name = register_handler(capsule)
        self._has_side_effect = has_side_effect

        def ffi_handler(*args: Any) -> Any:
            """Raise `TypeError`: Python cannot call the handler."""
            raise TypeError(
                f"the FFI handler '{self._target_name}' can be called by compiled programs only. "
                "Call the object that native_callback returned."
            )

        super().__init__(ffi_handler, result_type)

    @property
    def _described(self) -> str:
        """Name of the callback in errors."""
        return f"native_callback '{self._target_name}'"

    def _call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Trace a call of the FFI handler, without derivative rules.

        The call is a ``jax.ffi.ffi_call``. The handler gets the leaves of ``(args, kwargs)`` in
        order.

        Returns:
            the handler's results, in the structure of the user's ``result_type``.
        """
        leaves, _ = flatten_arguments("native_callback", self._function, args, kwargs)
        assert self._declared is not None
        avals, tree = self._declared
        results = tuple(jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals)
        call = jax.ffi.ffi_call(
            self._target_name,
            results,
            has_side_effect=self._has_side_effect,
            vmap_method="sequential",
        )
        return jax.tree.unflatten(tree, call(*leaves))


def is_capsule(function: Any) -> bool:
    """Return whether an object is a ``PyCapsule``, such as of ``jax.ffi.pycapsule``."""
    return type(function).__name__ == "PyCapsule"


def register_handler(capsule: Any) -> str:
    """Register an FFI handler with XLA for the CPU, unless the capsule is registered.

    The registration lasts until the process ends.

    Args:
        capsule: a ``PyCapsule`` with the handler's address.

    Returns:
        the name by which programs call the handler.
    """
    if id(capsule) not in _registered:
        name = f"bellhop_user_handler_{next(_numbers)}"
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")
        _registered[id(capsule)] = name, capsule
    return _registered[id(capsule)][0]
