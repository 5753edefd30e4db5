"""Delay callback exceptions in ``jax.jit`` programs with collective operations.

In ``jax.jit(jax.shard_map(part, mesh=mesh, in_specs=P("i"), out_specs=P("i")))`` with ::

    part = lambda x: jax.lax.psum(pure_callback(f, float)(x[0]), "i")

all devices meet in an ``all-reduce``.  If ``f`` raises on one device, all other devices would wait
for it until XLA aborts the process.  So the runtime (``runtime/ffi/joint_runs.h``) makes the
callback return zeros, skips further calls in that execution, and the exception is raised here when
all devices have finished.  A program without collectives stops where its callback raises.

For JAX's own callbacks (``compiler/jax_callback_lowering.py``), ``JaxCallbackExceptions`` does the
same in Python.
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


def has_local_collectives(executable: Any) -> bool:
    """Return whether a program has collectives and all its devices in this process.

    Then an exception of a callback must be delayed until all devices have finished. With devices in
    several processes it is not delayed: other processes would continue with zeros.

    Args:
        executable: XLA's ``LoadedExecutable``.
    """
    devices = executable.local_devices()
    if len(devices) < 2:
        return False
    text = "\n".join(module.to_string() for module in executable.hlo_modules())
    header = text.partition("\n")[0]
    if math.prod(int(number) for number in _DEVICES.findall(header)) != len(devices):
        return False
    return _COLLECTIVE.search(text) is not None


class JaxCallbackExceptions:
    """Collects the exceptions of callbacks that JAX's own mechanism calls.

    The exceptions are raised when the program's execution ends. On GPUs and TPUs, Bellhop's
    callbacks are lowered to JAX's callbacks, which call the method `call`. There is one object for
    each module, kept alive by the module's executable. JAX does not identify the execution of a
    call, so concurrent executions of a module share exceptions.
    """

    def __init__(self) -> None:
        self._runs: list[list[BaseException]] = []

    @contextlib.contextmanager
    def collect_exceptions(self) -> Iterator[list[BaseException]]:
        """Collect callbacks' exceptions in a ``with`` block that executes the module once.

        Yields:
            the list to which `call` appends exceptions until the block ends.
        """
        raised: list[BaseException] = []
        self._runs.append(raised)
        try:
            yield raised
        finally:
            # ``remove`` would compare lists by their contents.
            self._runs = [each for each in self._runs if each is not raised]

    def call(self, function: Callable[[], None]) -> bool:
        """Call a callback, unless a callback has raised; collect its exception.

        The exception is appended to the lists of all executions in progress, which
        `collect_exceptions` has yielded.

        Args:
            function: calls the user's callback and stores its results.

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


def run_and_raise_at_end(
    table: CallbackTable | None,
    exceptions: JaxCallbackExceptions,
    executable: Any,
    run: Callable[[], T],
    find_exception: Callable[[str], BaseException | None],
) -> T:
    """Execute a program with collectives; raise callbacks' exceptions at its end.

    Args:
        table: the runtime's table of the program's callbacks; None if JAX's own callbacks make all
            calls.
        exceptions: collects the exceptions of calls that JAX's own callbacks make.
        executable: XLA's ``LoadedExecutable``.
        run: executes the program and waits until all devices have finished.
        find_exception: takes the message of an error from the runtime; returns the exception that
            the callback raised, or None if the error is not an exception of a callback.

    Returns:
        the value that `run` returns.

    Raises:
        BaseException: if callbacks raised, the exception that `_combine_failures` chooses, with
            notes about all other exceptions; otherwise an exception of `run`.
    """
    joint = None if table is None else JointRun(table, len(executable.local_devices()))
    error, result = None, None
    with exceptions.collect_exceptions() as failures:
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
    """Choose one exception to raise; add notes about all other exceptions to it.

    Args:
        failures: the exceptions, in the order in which they were raised.

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
