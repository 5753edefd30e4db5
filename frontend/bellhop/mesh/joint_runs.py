"""Delay callback exceptions in ``jax.jit`` programs with collective operations.

In ``jax.jit(jax.shard_map(part, mesh=mesh, in_specs=P("i"), out_specs=P("i")))`` with ::

    part = lambda x: jax.lax.psum(pure_callback(f, float)(x[0]), "i")

all devices meet in an ``all-reduce``.  If ``f`` raises on one device, all other devices would wait
for it until XLA aborts the process.  So the runtime (``runtime/ffi/joint_runs.h``) makes the
callback return zeros, skips further calls in that execution, and the exception is raised here when
all devices have finished.  A program without collectives stops where its callback raises.

For JAX's own callbacks (``compiler/jax_callback_lowering.py``), ``Delegated`` does the same in
Python.
"""

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import jax

from bellhop._jax.private import hide_frames
from bellhop.base.exception_attributes import add_note
from bellhop_runtime import CallbackTable, JointRun

T = TypeVar("T")

# HLO operations in which devices wait for each other, including asynchronous operations.
_COLLECTIVE = re.compile(
    r" (?:all-gather|all-reduce|all-to-all|collective-broadcast|collective-permute"
    r"|ragged-all-to-all|reduce-scatter)(?:-start)?\("
)
_DEVICES = re.compile(r"(?:num_partitions|replica_count)=(\d+)")


def has_joint_devices(executable: Any) -> bool:
    """Return whether an executable has collectives over devices of this process only.

    Then an exception of a callback must be delayed until all devices have finished. With devices in
    several processes it is not delayed: other processes would continue with zeros. ``executable``
    is XLA's ``LoadedExecutable``.
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
    """Delays the exceptions of JAX callbacks until the program's execution ends.

    There is one for each module, kept alive by the module's executable. JAX does not identify the
    execution of a call, so concurrent executions of a module share exceptions.
    """

    def __init__(self) -> None:
        self._runs: list[list[BaseException]] = []

    @contextlib.contextmanager
    def collect_exceptions(self) -> Iterator[list[BaseException]]:
        """Yield a list that receives the exceptions of this module's callbacks.

        It receives them until the end of the ``with`` block, in which the module is executed once.
        """
        raised: list[BaseException] = []
        self._runs.append(raised)
        try:
            yield raised
        finally:
            # ``remove`` would compare lists by their contents.
            self._runs = [each for each in self._runs if each is not raised]

    def call(self, function: Callable[[], None]) -> bool:
        """Call a callback, which stores its results, unless an execution has failed.

        Returns:
            True if the function has returned; False if it was not called or raised, so that its
            results must be zeros.

        Raises:
            BaseException: the function's exception, if no execution collects exceptions.
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
    find_exception: Callable[[str], BaseException | None],
) -> T:
    """Run a program whose devices wait for each other; raise exceptions at its end.

    Args:
        table: published callback table of the program; None if JAX's own callbacks make all calls.
        delegated: collects the exceptions of calls that JAX's own callbacks make.
        executable: XLA's ``LoadedExecutable``.
        run: runs the program until all devices have finished; its value is returned.
        find_exception: takes the message of an error; returns the callback's exception, or None.

    Raises:
        BaseException: the first exception of a callback, with notes about other exceptions.
    """
    joint = None if table is None else JointRun(table, len(executable.local_devices()))
    error, result = None, None
    with delegated.collect_exceptions() as failures:
        try:
            result = run()
        except BaseException as raised:
            error = raised
    for text in [] if joint is None else joint.end():
        behind = find_exception(text)
        failures.append(jax.errors.JaxRuntimeError(text) if behind is None else behind)
    # Raise outside of the handler, so that XLA's error is not the exception's context.
    failure = _combine_failures(failures)
    if failure is None:
        failure = error
    if failure is None:
        return result  # type: ignore[return-value]
    try:
        raise failure
    finally:
        hide_frames(failure)
        # Break the reference cycle of exception, traceback and this frame.
        del failure, error, failures


def _combine_failures(failures: Sequence[BaseException]) -> BaseException | None:
    """Choose the exception to raise for an execution; add notes about the rest to it.

    Returns:
        the first exception like KeyboardInterrupt, which should end the process; else the first
        exception; None if there are none.
    """
    if not failures:
        return None
    first = next((each for each in failures if not isinstance(each, Exception)), failures[0])
    for other in failures:
        if other is not first:
            add_note(first, f"bellhop: another call raised {other!r} in the same run")
    return first
