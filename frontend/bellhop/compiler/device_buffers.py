"""Values of a region that the program has handles for: on its device, or the program's arguments.

A handle that a run made names what is on the region's device.  That of an argument says no more
than its number: where the caller's array lies, each call tells.
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

# What a region fetched, and what it keeps.
Results: TypeAlias = tuple[list[np.ndarray], list[jax.Array]]


@dataclass(frozen=True)
class DeviceBuffers:
    """Which values of a region stay where they are; programs have handles for them.

    Attributes:
        held: the arguments that it gets handles of, by number, as it takes them.
        fetched: the numbers of the results that the host needs.
        kept: those of the results that stay, for each handle.
    """

    held: dict[int, jax.ShapeDtypeStruct]
    fetched: tuple[int, ...]
    kept: tuple[int, ...]

    @classmethod
    def from_declaration(
        cls, declaration: dialect.FuncOp, type_: ir.FunctionType, target: Target
    ) -> "DeviceBuffers":
        """Return that of a declaration, whose module has a function of a type."""
        held, fetched = declaration.find_indices("held") or (), declaration.find_indices("fetched")
        types = {place: to_aval(type_.inputs[place]) for place in held}
        return cls(
            {
                place: jax.ShapeDtypeStruct(
                    aval.shape, aval.dtype, sharding=find_sharding(target, aval.shape)
                )
                for place, aval in types.items()
            },
            tuple(range(len(type_.results)) if fetched is None else fetched),
            tuple(declaration.find_indices("kept") or ()),
        )

    def host_argument_indices(self, n_arguments: int) -> tuple[int, ...]:
        """Return the numbers of the arguments that come from the program."""
        return tuple(place for place in range(n_arguments) if place not in self.held)

    def resolve_arguments(self, arguments: Sequence[np.ndarray]) -> Sequence[Any]:
        """Return the arguments, with what they stand for in the place of handles."""
        if not self.held:
            return arguments
        found: list[Any] = list(arguments)
        moved = 0
        for place, taken in self.held.items():
            handle = int(found[place].view(_HANDLE)[0])
            number = dialect.find_argument_index(handle)
            moved -= _HANDLE.itemsize
            if number is None:
                found[place] = held(handle)
                continue
            given = unwrap_key_data(argument_of_call(number))
            found[place] = _to_executable_argument(given, taken)
            if isinstance(found[place], np.ndarray) or found[place] is not given:
                moved += found[place].nbytes
        if observers:
            Profile.add_bytes(moved, 0)
        return found

    def convert_results(self, results: Results) -> Any:
        """Return what the program gets: arrays, and handles of what is held from now on."""
        fetched, kept = results
        handles = [np.array([hold(value)], _HANDLE).view(np.uint32) for value in kept]
        if kept and observers:
            Profile.add_bytes(0, -len(kept) * _HANDLE.itemsize)
        arrays = fetched + handles
        return arrays[0] if len(arrays) == 1 else tuple(arrays)


def _to_executable_argument(argument: Any, taken: jax.ShapeDtypeStruct) -> Any:
    """Return what a program was called with, the words of a key, as a region's executable takes it.

    What lies on the device is returned as it is.
    """
    if not isinstance(argument, jax.Array):
        # Numbers of Python's too.
        return np.asarray(argument, taken.dtype)
    if argument.sharding.is_equivalent_to(taken.sharding, argument.ndim):
        return argument
    is_on_host = all(device.platform == "cpu" for device in argument.devices())
    if is_on_host or not taken.sharding.is_fully_addressable:
        # The executable moves it itself, in less time.
        return np.asarray(argument)
    return jax.device_put(argument, taken.sharding)
