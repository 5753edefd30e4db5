"""Accelerated regions on a device of their own: executables that programs call."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from bellhop._jax_compat import run_compiled
from bellhop.failures import RUN_ERRORS, python_failure
from bellhop.lowering import Code, table_handle
from bellhop.program import program_p
from bellhop_runtime import CallbackTable


class Region:
    """A region compiled for its device when the program is compiled, never later.

    Args:
        name: the user's function.
        code: its program.
        inputs: abstract values of the arguments.
        table: the callbacks of the program.
        device: where it runs.
    """

    def __init__(
        self,
        name: str,
        code: Code,
        inputs: Sequence[jax.core.ShapedArray],
        table: CallbackTable,
        device: jax.Device,
    ) -> None:
        self.name = name
        self.device = device
        self._table = table
        sharding = jax.sharding.SingleDeviceSharding(device)
        # A program is compiled while a function is being traced, and this is no part of that.
        with jax.ensure_compile_time_eval():
            self._handle = jax.device_put(table_handle(table), sharding)
        specs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding) for aval in inputs]
        region = jax.jit(lambda *args: program_p.bind(*args, code=code), keep_unused=True)
        self._executable = region.lower(*specs, self._handle).compile()
        # What calls back may come back here; see run_compiled.
        self._calls_back = b"bellhop_callback" in code.module
        self._is_single = len(code.out_avals) == 1

    def run(self, *arguments: np.ndarray) -> Any:
        """Run the region: each argument to the device once, each result back once."""
        moved = jax.device_put(arguments, self.device)
        try:
            if self._calls_back:
                results = run_compiled(self._executable, *moved, self._handle)
            else:
                results = self._executable(*moved, self._handle)
        except RUN_ERRORS as error:
            failure = python_failure(error)
            if failure is None:
                raise
        else:
            failure = None
        if failure is not None:
            # Outside the handler, so that XLA's account of it is not the context.
            raise failure
        arrays = tuple(map(np.asarray, results))
        return arrays[0] if self._is_single else arrays

    def convert(self, value: Any, dtype: np.dtype, shape: tuple[int, ...], index: int) -> Any:
        """Refuse a result that is not as compiled; it cannot happen."""
        raise TypeError(
            f"accelerate: '{self.name}' on {self.device} returned {value.dtype}{value.shape} as "
            f"result {index}, compiled for {dtype}{shape}. This is an error of bellhop; please "
            "report it."
        )
