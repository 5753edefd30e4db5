"""Accelerated regions on a device of their own: executables that programs call."""

import contextvars
import functools
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from bellhop._jax.slow_dispatch import is_checking_results, run_compiled
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
from bellhop_runtime import Callback, CallbackTable
from bellhop_runtime._interrupts import HELPERS


class Region:
    """A region compiled for its device when the program is compiled, never later.

    Args:
        name: the user's function.
        site: ``file:line`` of the user's call.
        program: its program.
        inputs: abstract values of the arguments.
        table: the callbacks of the program.
        target: where it runs.
        residence: what of it stays on the device.
    """

    def __init__(
        self,
        name: str,
        site: str,
        program: Program,
        inputs: Sequence[jax.core.ShapedArray],
        table: CallbackTable,
        target: Target,
        residence: DeviceBuffers,
    ) -> None:
        self.name = name
        self.target = target
        self._residence = residence
        self._table = table
        self._delegates = program.delegates
        code = program.code
        self._calls_back = code.calls_python
        if self._calls_back and not isinstance(target, jax.Device):
            raise CompileError(
                f"accelerate: '{name}' runs on several devices ({describe_target(target)}) and "
                "calls Python, which each of them would. Move the callback out of the accelerated "
                "function, or run it on one device."
            )
        self._spans_processes = (
            not isinstance(target, jax.Device) and not target.is_fully_addressable
        )
        handle = table_handle(table)
        # A program is compiled while a function is being traced, and this is no part of that.
        with jax.ensure_compile_time_eval():
            self._handle = self._replicate(handle)
        specs = [
            jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=find_sharding(target, aval.shape))
            for aval in inputs
        ]
        # On the CPU an argument is a NumPy array's own memory, which is not XLA's to take.
        is_donated = target_platform(target) != "cpu"
        region = jax.jit(
            lambda *args: program_p.bind(
                *code.operands(args[:-1]), args[-1], code=code, is_region=True
            ),
            keep_unused=True,
            donate_argnums=residence.host_argument_indices(len(specs)) if is_donated else (),
            # Each process has all of the results.
            out_shardings=find_sharding(target, ()) if self._spans_processes else None,
        )
        try:
            self._executable = _compile(region, [*specs, self._handle])
        except Exception as error:
            error.add_note(
                f"raised when region '{name}', called from {site}, was compiled for "
                f"{describe_target(target)}"
            )
            raise
        _check_memory(self._executable, name, site, target)

    def __call__(self, *arguments: np.ndarray) -> Any:
        """Run the region: each argument to the device once, each result back once."""
        check_device_not_waiting(self._device, self.name)
        found = self._residence.resolve_arguments(arguments)
        return self._residence.convert_results(self._run(found))

    def start(self, *arguments: np.ndarray) -> Callable[[], Any]:
        """Start the region and return a function that waits for its results.

        The region runs while the program goes on.
        """
        check_device_not_waiting(self._device, self.name)
        found = self._residence.resolve_arguments(arguments)
        if self._calls_back or target_platform(self.target) == "cpu":
            # Executables of the CPU run in the thread that calls them. Those of other platforms
            # may, as far as to the end of what they call.
            wait = _thread_pool().submit(contextvars.copy_context().run, self._run, found).result
        else:
            launched = run_with_failures(lambda: self.launch(found))
            for place in self._residence.fetched:
                launched[place].copy_to_host_async()
            wait = functools.partial(self._fetch, launched)
        return lambda: self._residence.convert_results(wait())

    @functools.cached_property
    def _device(self) -> str:
        return target_name(self.target)

    def _run(self, arguments: Sequence[Any]) -> Results:
        return self._fetch(run_with_failures(lambda: self.launch(arguments)))

    def _fetch(self, launched: Sequence[jax.Array]) -> Results:
        residence = self._residence
        fetched = run_with_failures(lambda: [np.asarray(launched[i]) for i in residence.fetched])
        return fetched, [launched[i] for i in residence.kept]

    def launch(self, arguments: Sequence[Any]) -> Sequence[jax.Array]:
        """Move the arguments to the device and start there; return the results to be.

        The arguments go to the executable as they are: JAX then moves them in its C++ path,
        which takes a quarter of the time that ``jax.device_put`` does.
        """
        if self._spans_processes:
            arguments = [
                value if isinstance(value, jax.Array) else self._replicate(value)
                for value in arguments
            ]
        # What calls back may come back here; see run_compiled.
        if self._calls_back or is_checking_results():
            return run_compiled(self._executable, None, *arguments, self._handle)
        return self._executable(*arguments, self._handle)

    def _replicate(self, value: np.ndarray) -> jax.Array:
        """Return an array on all devices of the target, which may be those of several processes.

        JAX would compare what they have, and handles differ.
        """
        sharding = find_sharding(self.target, value.shape)
        if not self._spans_processes:
            return jax.device_put(value, sharding)
        return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])

    def convert(self, value: Any, dtype: np.dtype, shape: tuple[int, ...], index: int) -> Any:
        """Refuse a result that is not as compiled; it cannot happen."""
        raise TypeError(
            f"accelerate: '{self.name}' returned {value.dtype}{value.shape} as result {index}, "
            f"compiled for {dtype}{shape}. This is an error of bellhop; please report it."
        )

    def callback(self, site: str) -> Callback:
        """Return what a program calls to run it; ``site`` is the user's call."""
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
    """Values that are moved to a device, or from there, and not computed with."""

    def __init__(self, name: str, target: jax.Device, residence: DeviceBuffers) -> None:
        self.name = name
        self.target = target
        self._residence = residence

    def launch(self, arguments: Sequence[Any]) -> Sequence[jax.Array]:
        """Move those arguments to the device that are not there."""
        return [
            value if isinstance(value, jax.Array) else jax.device_put(value, self.target)
            for value in arguments
        ]


def _compile(region: Any, arguments: Sequence[Any]) -> jax.stages.Compiled:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        return run_with_failures(region.lower(*arguments).compile)


def _check_memory(executable: jax.stages.Compiled, name: str, site: str, target: Target) -> None:
    """Refuse a region that takes more memory than its devices have, before it takes any."""
    devices = [target] if isinstance(target, jax.Device) else list(target.device_set)
    takes, there_is = required_memory(executable), min_device_memory(devices)
    if takes > there_is:
        n = len(devices)
        raise CompileError(
            f"accelerate: '{name}', called from {site}, would take {format_gib(takes)} of memory "
            f"on {describe_target(target)}{' each' if n > 1 else ''}, and there is "
            f"{format_gib(there_is)}. Use smaller arrays, fewer wires or single precision, or a "
            f"mesh: "
            f"of a state that is partitioned, {required_device_count(takes * n, there_is)} such "
            f"devices "
            "have enough."
        )


@functools.cache
def _thread_pool() -> ThreadPoolExecutor:
    # A region may wait for others that its callbacks start, so there is no end of threads.
    return ThreadPoolExecutor(max_workers=4096, thread_name_prefix=HELPERS)
