"""Accelerated regions on a device of their own: executables that programs call."""

from typing import Any

import jax
import numpy as np
from jax.interpreters.mlir import ir

from bellhop.lowering import Program, table_handle
from bellhop.program import program_p
from bellhop_runtime import CallbackTable

_DTYPES = {
    "i1": "bool",
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}


def _aval(type_: ir.Type) -> jax.ShapeDtypeStruct:
    tensor = ir.RankedTensorType(type_)
    element = str(tensor.element_type)
    if element not in _DTYPES:
        raise NotImplementedError(
            f"values of element type {element} cannot cross to an accelerated region on "
            "another device"
        )
    return jax.ShapeDtypeStruct(tuple(tensor.shape), jax.numpy.dtype(_DTYPES[element]))


class Region:
    """A region compiled for its device when the program is compiled, never later.

    Args:
        name: the user's function.
        program: the region's program.
        device: where it runs.
        function_type: types of its arguments and results.
    """

    def __init__(
        self, name: str, program: Program, device: jax.Device, function_type: ir.FunctionType
    ) -> None:
        self.name = name
        self.device = device
        self._table = CallbackTable()
        self._table.add_program(program.key, program.callbacks)
        sharding = jax.sharding.SingleDeviceSharding(device)
        results = tuple(
            jax.core.ShapedArray(aval.shape, aval.dtype)
            for aval in map(_aval, function_type.results)
        )
        inputs = [
            jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding)
            for aval in map(_aval, function_type.inputs)
        ]
        handle = table_handle(self._table)
        self._handle = jax.device_put(handle, sharding)
        self._executable = (
            jax.jit(
                lambda *args: program_p.bind(*args, program=program, out_avals=results),
                keep_unused=True,
            )
            .lower(*inputs, self._handle)
            .compile()
        )
        self._is_single = len(results) == 1

    def run(self, *arguments: np.ndarray) -> Any:
        """Run the region: each argument to the device once, each result back once."""
        moved = jax.device_put(arguments, self.device)
        results = self._executable(*moved, self._handle)
        arrays = tuple(map(np.asarray, results))
        return arrays[0] if self._is_single else arrays

    def convert(self, value: Any, dtype: np.dtype, shape: tuple[int, ...], index: int) -> Any:
        """Refuse a result that is not as compiled; it cannot happen."""
        raise TypeError(
            f"accelerate: '{self.name}' on {self.device} returned {value.dtype}{value.shape} as "
            f"result {index}, compiled for {dtype}{shape}. This is an error of bellhop; please "
            "report it."
        )
