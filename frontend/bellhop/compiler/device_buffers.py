"""Region values that stay on the region's device or in the caller's arguments.

A handle from a region's execution identifies a value on the device. A handle of a program argument
contains only the argument's index; the array's location is found at each call.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.interpreters.mlir import ir

from bellhop.base.types import to_aval, unwrap_key_data
from bellhop.compiler.compile_timing import observers
from bellhop.devices.devices import Target, find_sharding
from bellhop_mlir.dialects import callback as dialect
from bellhop_runtime import Profile, argument_of_call, held, hold

_HANDLE = np.dtype(np.uint64)

# Results copied to the host, and results that stay on the device.
Results: TypeAlias = tuple[list[np.ndarray], list[jax.Array]]


@dataclass(frozen=True)
class DeviceBuffers:
    """Describes which arguments and results of a region stay on its device.

    A region is a function that `accelerate` runs on a device. Between its regions, the program
    passes a value that stays on a device as a handle, uint32[2]. One object is made for each
    compiled region.

    Attributes:
        held: types of the arguments that are passed as handles, by index of the argument.
        fetched: indices of the results that the host needs, which are copied to it.
        kept: indices of the results that stay on the device, one for each handle that the region
            returns, in order; a result may have several handles.
    """

    held: dict[int, jax.ShapeDtypeStruct]
    fetched: tuple[int, ...]
    kept: tuple[int, ...]

    @classmethod
    def from_declaration(
        cls, declaration: dialect.FuncOp, type_: ir.FunctionType, target: Target
    ) -> "DeviceBuffers":
        """Read from MLIR which arguments and results of a region stay on its device.

        Args:
            declaration: the region's ``callback.func``. Its attributes ``held``, ``fetched`` and
                ``kept`` list indices; without ``fetched``, the host needs all results.
            type_: function type of the region's module.
            target: device or sharding of the region.
        """
        held, fetched = declaration.find_indices("held") or (), declaration.find_indices("fetched")
        types = {index: to_aval(type_.inputs[index]) for index in held}
        return cls(
            {
                index: jax.ShapeDtypeStruct(
                    aval.shape, aval.dtype, sharding=find_sharding(target, aval.shape)
                )
                for index, aval in types.items()
            },
            tuple(range(len(type_.results)) if fetched is None else fetched),
            tuple(declaration.find_indices("kept") or ()),
        )

    def host_argument_indices(self, n_arguments: int) -> tuple[int, ...]:
        """Return the indices of a region's arguments that are arrays from the host, not handles."""
        return tuple(index for index in range(n_arguments) if index not in self.held)

    def resolve_arguments(self, arguments: Sequence[np.ndarray]) -> Sequence[Any]:
        """Replace handles among a region's arguments by the arrays that they identify.

        Also corrects the bytes in active profiles: copied arrays count, and handles do not.

        Args:
            arguments: the region's arguments from the program; handles are uint32[2].

        Returns:
            the region's arguments, with arrays in place of handles: on the region's device, or
            NumPy arrays that its executable copies.
        """
        if not self.held:
            return arguments
        resolved: list[Any] = list(arguments)
        n_bytes = 0
        for index, expected in self.held.items():
            handle = int(resolved[index].view(_HANDLE)[0])
            argument_index = dialect.find_argument_index(handle)
            n_bytes -= _HANDLE.itemsize
            if argument_index is None:
                resolved[index] = held(handle)
                continue
            argument = unwrap_key_data(argument_of_call(argument_index))
            resolved[index] = _to_executable_argument(argument, expected)
            if isinstance(resolved[index], np.ndarray) or resolved[index] is not argument:
                n_bytes += resolved[index].nbytes
        if observers:
            Profile.add_bytes(n_bytes, 0)
        return resolved

    def convert_results(self, results: Results) -> Any:
        """Convert a region's results to values for the program: host arrays, then handles.

        A handle identifies an array that stays on the device, and keeps it alive until the handle
        is released. Also corrects the transferred bytes in active profiles.

        Args:
            results: the arrays copied to the host, and the arrays that stay on the device.

        Returns:
            a tuple of the host arrays, then a handle, uint32[2], for each device array; the array
            itself if there is one.
        """
        fetched, kept = results
        handles = [np.array([hold(value)], _HANDLE).view(np.uint32) for value in kept]
        if kept and observers:
            Profile.add_bytes(0, -len(kept) * _HANDLE.itemsize)
        arrays = fetched + handles
        return arrays[0] if len(arrays) == 1 else tuple(arrays)


def _to_executable_argument(argument: Any, expected: jax.ShapeDtypeStruct) -> Any:
    """Convert a program argument to the type and device that a region expects.

    Args:
        argument: an array or a scalar; key data in place of a random key.
        expected: dtype and sharding of the region's parameter.

    Returns:
        `argument` itself if it is on the right devices; else a copy there, or a NumPy array that
        the executable copies.
    """
    if not isinstance(argument, jax.Array):
        # Includes Python scalars.
        return np.asarray(argument, expected.dtype)
    if argument.sharding.is_equivalent_to(expected.sharding, argument.ndim):
        return argument
    is_on_host = all(device.platform == "cpu" for device in argument.devices())
    if is_on_host or not expected.sharding.is_fully_addressable:
        # The executable copies host arrays faster than `device_put`.
        return np.asarray(argument)
    return jax.device_put(argument, expected.sharding)
