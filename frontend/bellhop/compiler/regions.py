"""Regions (`accelerate`): executables on other devices that programs call."""

import contextvars
import functools
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from bellhop._jax.slow_dispatch import is_checking_results, run_compiled
from bellhop.base.exception_attributes import add_note
from bellhop.compiler.deadlock_check import check_device_not_waiting
from bellhop.compiler.device_buffers import DeviceBuffers, Results
from bellhop.compiler.failures import run_with_failures
from bellhop.compiler.program import Program, program_p, table_handle
from bellhop.devices.device_memory import (
    format_gib,
    min_device_memory,
    required_device_count,
    required_memory,
)
from bellhop.devices.devices import (
    Target,
    describe_target,
    find_sharding,
    target_name,
    target_platform,
)
from bellhop.errors import CompileError
from bellhop.settings.loop_simplification import WITHOUT_SIMPLIFICATION
from bellhop_runtime import Callback, CallbackTable
from bellhop_runtime._interrupts import HELPERS


class Region:
    """The executable of a region (`accelerate`), which a program calls.

    It runs on another device. It is compiled by XLA together with the program that contains the
    region, and lives as long as that program.

    Args:
        name: name of the user's function.
        site: ``file:line`` of the user's call.
        program: the region's program.
        inputs: types of the arguments.
        table: the Python functions that the region's program calls.
        target: device or sharding of the region.
        buffers: which arguments and results stay on the device.

    Raises:
        CompileError: if the region has callbacks and several devices, or needs more memory than a
            device has.
    """

    def __init__(
        self,
        name: str,
        site: str,
        program: Program,
        inputs: Sequence[jax.core.ShapedArray],
        table: CallbackTable,
        target: Target,
        buffers: DeviceBuffers,
    ) -> None:
        self.name = name
        self.target = target
        self._buffers = buffers
        self._table = table
        self._delegates = program.delegates
        code = program.code
        self._calls_back = code.calls_python
        if self._calls_back and not isinstance(target, jax.Device):
            raise CompileError(
                f"accelerate of '{name}' runs on several devices ({describe_target(target)}), "
                "where callbacks are not supported. Move the callback out of the accelerated "
                "function, or run it on one device."
            )
        self._spans_processes = (
            not isinstance(target, jax.Device) and not target.is_fully_addressable
        )
        handle = table_handle(table)
        # Compilation happens during tracing, and these arrays must be concrete.
        with jax.ensure_compile_time_eval():
            self._handle = self._replicate(handle)
        specs = [
            jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=find_sharding(target, aval.shape))
            for aval in inputs
        ]
        # On the CPU an argument shares a NumPy array's memory, which XLA must not reuse.
        is_donated = target_platform(target) != "cpu"
        region = jax.jit(
            lambda *args: program_p.bind(
                *code.select_operands(args[:-1]), args[-1], code=code, is_region=True
            ),
            keep_unused=True,
            donate_argnums=buffers.host_argument_indices(len(specs)) if is_donated else (),
            # Replicate the results in all processes.
            out_shardings=find_sharding(target, ()) if self._spans_processes else None,
            compiler_options=None if code.simplifies_loops else WITHOUT_SIMPLIFICATION,
        )
        try:
            self._executable = _compile(region, [*specs, self._handle])
        except Exception as error:
            add_note(
                error,
                f"raised when region '{name}', called from {site}, was compiled for "
                f"{describe_target(target)}",
            )
            raise
        _check_memory(self._executable, name, site, target)

    def __call__(self, *arguments: np.ndarray) -> Any:
        """Run the region: copy arguments to its device, and results back to the host.

        Args:
            *arguments: arrays from the program. For a value that is already on the region's device,
                its handle, uint32[2].

        Returns:
            one array or a tuple: the results that the host needs, then handles of the results that
            stay on the device.

        Raises:
            RuntimeError: if the region's device waits for the callback that calls the region.
        """
        check_device_not_waiting(self._device, self.name)
        resolved = self._buffers.resolve_arguments(arguments)
        return self._buffers.convert_results(self._run(resolved))

    def start(self, *arguments: np.ndarray) -> Callable[[], Any]:
        """Start the region on its device, without waiting for its results.

        Arguments and errors are as for `__call__`.

        Returns:
            a function without arguments that waits for the results, and returns them as `__call__`.
        """
        check_device_not_waiting(self._device, self.name)
        resolved = self._buffers.resolve_arguments(arguments)
        if self._calls_back or target_platform(self.target) == "cpu":
            # CPU executables run on the calling thread; other executables may do so until their
            # callbacks end.
            wait = _thread_pool().submit(contextvars.copy_context().run, self._run, resolved).result
        else:
            results = run_with_failures(lambda: self.launch(resolved))
            for index in self._buffers.fetched:
                results[index].copy_to_host_async()
            wait = functools.partial(self._fetch, results)
        return lambda: self._buffers.convert_results(wait())

    @functools.cached_property
    def _device(self) -> str:
        """Name of the region's device or mesh."""
        return target_name(self.target)

    def _run(self, arguments: Sequence[Any]) -> Results:
        """Run the executable with resolved arguments, and wait as `_fetch` does."""
        return self._fetch(run_with_failures(lambda: self.launch(arguments)))

    def _fetch(self, results: Sequence[jax.Array]) -> Results:
        """Wait for the results that the host needs, and copy them to the host.

        Args:
            results: all results of the region's executable, which may not be ready.

        Returns:
            the copies, in the order of ``DeviceBuffers.fetched``; and device arrays for the results
            that stay on the device, in the order of ``DeviceBuffers.kept``, which may not be ready.
            A result may be in both lists.
        """
        buffers = self._buffers
        fetched = run_with_failures(lambda: [np.asarray(results[i]) for i in buffers.fetched])
        return fetched, [results[i] for i in buffers.kept]

    def launch(self, arguments: Sequence[Any]) -> Sequence[jax.Array]:
        """Start the region on its device; return all its results, which may not be ready.

        Args:
            arguments: for each argument of the region a NumPy array; or a JAX array on the region's
                device, where the program passes a handle of a device-resident array.
        """
        # The executable copies host arrays in a quarter of the time of `jax.device_put`.
        if self._spans_processes:
            arguments = [
                value if isinstance(value, jax.Array) else self._replicate(value)
                for value in arguments
            ]
        # A callback may run this region again; see `run_compiled`.
        if self._calls_back or is_checking_results():
            return run_compiled(self._executable, None, *arguments, self._handle)
        return self._executable(*arguments, self._handle)

    def _replicate(self, value: np.ndarray) -> jax.Array:
        """Replicate a NumPy array on the region's devices, possibly of many processes."""
        sharding = find_sharding(self.target, value.shape)
        if not self._spans_processes:
            return jax.device_put(value, sharding)
        # `device_put` would check that all processes pass equal values, and handles differ.
        return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])

    def convert(self, value: Any, dtype: np.dtype, shape: tuple[int, ...], index: int) -> Any:
        """Raise the error for a result whose type differs from the type in the program.

        The runtime calls it for such a result, which is a bug in Bellhop.

        Args:
            value: the array that the region returned.
            dtype: dtype of the result in the compiled program.
            shape: shape of the result in the compiled program.
            index: index of the result.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"accelerate of '{self.name}' returned {value.dtype}{value.shape} as result {index}, "
            f"compiled for {dtype}{shape}. This is a bug in bellhop; please report it."
        )

    def as_callback(self, site: str) -> Callback:
        """Make the C++ object, a `Callback`, by which a program runs this region.

        Args:
            site: ``file:line`` of the user's call.
        """
        where = describe_target(self.target)
        return Callback(
            function=self,
            convert=self.convert,
            description=f"region '{self.name}' on {where}",
            site=site,
            kind=f"region on {where}",
            name=self.name,
            definition=site,
        )


class Transfer(Region):
    """A region without computation, which only copies values to or from a device.

    Nothing is compiled.

    Args:
        name: name of the user's function.
        target: the device.
        buffers: which arguments and results stay on the device.
    """

    def __init__(self, name: str, target: jax.Device, buffers: DeviceBuffers) -> None:
        self.name = name
        self.target = target
        self._buffers = buffers

    def launch(self, arguments: Sequence[Any]) -> Sequence[jax.Array]:
        """Return the arguments as arrays on the device, copying host arrays to it."""
        return [
            value if isinstance(value, jax.Array) else jax.device_put(value, self.target)
            for value in arguments
        ]


def _compile(region: Any, arguments: Sequence[Any]) -> jax.stages.Compiled:
    """Compile a region, without JAX's warning about unused donated buffers."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        return run_with_failures(region.lower(*arguments).compile)


def _check_memory(executable: jax.stages.Compiled, name: str, site: str, target: Target) -> None:
    """Raise an error if a compiled region needs more memory than a device has.

    Args:
        executable: the compiled region.
        name: name of the user's function, for the error.
        site: ``file:line`` of the user's call, for the error.
        target: device or sharding of the region.

    Raises:
        CompileError: naming the memory that is needed and available.
    """
    devices = [target] if isinstance(target, jax.Device) else list(target.device_set)
    required, available = required_memory(executable), min_device_memory(devices)
    if required > available:
        n = len(devices)
        raise CompileError(
            f"accelerate of '{name}', called from {site}, needs {format_gib(required)} of memory "
            f"on {'each of ' if n > 1 else ''}{describe_target(target)}, where "
            f"{format_gib(available)} are available. Use smaller arrays, fewer wires or single "
            "precision, or partition arrays or the state over a mesh of "
            f"{required_device_count(required * n, available)} such devices."
        )


@functools.cache
def _thread_pool() -> ThreadPoolExecutor:
    """Return the pool of threads that run regions, created at the first call."""
    # A region may wait for regions that its callbacks start, so the number of threads is not
    # limited.
    return ThreadPoolExecutor(max_workers=4096, thread_name_prefix=HELPERS)
