"""Runs of a plain ``jax.jit`` whose devices wait for each other: they fail at their end.

In ``jax.jit(jax.shard_map(part, mesh=mesh, in_specs=P("i"), out_specs=P("i")))`` with ::

    part = lambda x: jax.lax.psum(pure_callback(f, float)(x[0]), "i")

all devices meet in an ``all-reduce``.  If ``f`` raises on one device, the others would wait for the
device until XLA ends the process.  So the runtime (``runtime/ffi/joint_runs.h``) lets the callback
return zeros, makes no more calls in that run, and the exception is raised here when all devices
have finished.  A program without collectives still stops where its callback raises.

Where JAX makes the calls (``compiler/jax_callback_lowering.py``), ``Delegated`` does the same in
Python.
"""

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import jax

from bellhop._jax.private import hide_frames
from bellhop_runtime import CallbackTable, JointRun

T = TypeVar("T")

# Operations of HLO in which devices wait for each other, asynchronous ones included.
_COLLECTIVE = re.compile(
    r" (?:all-gather|all-reduce|all-to-all|collective-broadcast|collective-permute"
    r"|ragged-all-to-all|reduce-scatter)(?:-start)?\("
)
_DEVICES = re.compile(r"(?:num_partitions|replica_count)=(\d+)")


def has_joint_devices(executable: Any) -> bool:
    """Return whether the devices of an executable wait for each other, in this process alone.

    Where they are in several processes, an exception is not delayed: the others would go on with
    zeros and not know it.

    Args:
        executable: XLA's.
    """
    devices = executable.local_devices()
    if len(devices) < 2:
        return False
    text = "\n".join(module.to_string() for module in executable.hlo_modules())
    header = text.partition("\n")[0]
    if math.prod(int(number) for number in _DEVICES.findall(header)) != len(devices):
        return False
    return _COLLECTIVE.search(text) is not None


class Delegated:
    """Exceptions of functions that JAX calls in the runs of one module.

    JAX does not tell which run it calls a function in, so runs of one module that overlap share
    their exceptions.
    """

    def __init__(self) -> None:
        self._runs: list[list[BaseException]] = []

    @contextlib.contextmanager
    def kept(self) -> Iterator[list[BaseException]]:
        """Keep exceptions for the end of a run, in the list that this yields."""
        raised: list[BaseException] = []
        self._runs.append(raised)
        try:
            yield raised
        finally:
            # ``remove`` would compare lists by their contents.
            self._runs = [each for each in self._runs if each is not raised]

    def call(self, function: Callable[[], None]) -> bool:
        """Call a function, unless a function has failed in the run before.

        Args:
            function: what to call.

        Returns:
            True if the function has returned; False if its results are to be zeros.

        Raises:
            BaseException: what the function raises, where no run keeps exceptions.
        """
        if any(self._runs):
            return False
        try:
            function()
        except BaseException as error:
            if not (runs := self._runs):
                raise
            for raised in runs:
                raised.append(error)
            return False
        return True


def run_jointly(
    table: CallbackTable | None,
    delegated: Delegated,
    executable: Any,
    run: Callable[[], T],
    exception_behind: Callable[[str], BaseException | None],
) -> T:
    """Run a program whose devices wait for each other, and raise what failed when it has ended.

    Args:
        table: the published table of the program's callbacks; None where JAX makes all calls.
        delegated: the calls of the program that JAX makes.
        executable: XLA's.
        run: runs the program, and returns when all devices have finished.
        exception_behind: returns the exception that the text of an error names, or None.

    Returns:
        what ``run`` returns.

    Raises:
        BaseException: what a callback raised, the first one; notes name what other calls raised.
    """
    joint = None if table is None else JointRun(table, len(executable.local_devices()))
    error, result = None, None
    with delegated.kept() as failures:
        try:
            result = run()
        except BaseException as raised:
            error = raised
    for text in [] if joint is None else joint.end():
        behind = exception_behind(text)
        failures.append(jax.errors.JaxRuntimeError(text) if behind is None else behind)
    # Not in the handler: XLA's account is not the context of what a callback raised.
    failure = _combined(failures)
    if failure is None:
        failure = error
    if failure is None:
        return result  # type: ignore[return-value]
    try:
        raise failure
    finally:
        hide_frames(failure)
        # Or they hold this frame, which holds them.
        del failure, error, failures


def _combined(failures: Sequence[BaseException]) -> BaseException | None:
    """Choose the exception to raise for a run, and note the others; None where there are none."""
    if not failures:
        return None
    # Nobody handles KeyboardInterrupt and SystemExit by accident, so they go first.
    first = next((each for each in failures if not isinstance(each, Exception)), failures[0])
    for other in failures:
        if other is not first:
            # A class may refuse new attributes.
            with contextlib.suppress(Exception):
                first.add_note(f"bellhop: another call raised {other!r} in the same run")
    return first
