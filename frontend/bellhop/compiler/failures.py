"""Original exceptions of callbacks and circuits behind the errors that XLA raises."""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import jax
from jax.interpreters import mlir

from bellhop._jax.patches.fast_calls import patch_fast_calls
from bellhop._jax.patches.runtime_error import patch_runtime_error
from bellhop.base.exception_attributes import set_exception_attribute
from bellhop.compiler.callback_hints import add_argument_hint
from bellhop.concurrency.caller_context import save_context
from bellhop.errors import CircuitError
from bellhop.mesh.joint_runs import (
    JaxCallbackExceptions,
    has_local_collectives,
    run_and_raise_at_end,
)
from bellhop_runtime import CallbackTable, keep_failure, take_failure

T = TypeVar("T")

# Exceptions of a failed execution: JAX's fast path raises ValueError.
RUN_ERRORS = (jax.errors.JaxRuntimeError, ValueError)

# Match the last id: the message may quote the message of another failure.
_FAILURE = re.compile(r".*\[bellhop (?:circuit )?failure (\d+)\]", re.DOTALL)
_PLAIN_FAILURE = re.compile(r".*\[bellhop (?:plain jit|circuit) failure (\d+)\]", re.DOTALL)


def find_python_failure(error: Exception) -> BaseException | None:
    """Find the exception of a callback or circuit that caused an error of XLA.

    The message of ``error`` has the id under which the runtime keeps the exception. The exception
    is removed there, so a second call for the same failure returns None.

    Returns:
        the exception; None if another fault caused the error.
    """
    return _take_failure(_FAILURE.match(str(error)))


def run_with_failures(step: Callable[[], T]) -> T:
    """Call `step`; raise the original exception if a callback or circuit failed.

    `step` executes or compiles a program: XLA calls callbacks without operands during compilation.

    Raises:
        BaseException: the exception of the callback or circuit, else XLA's error.
    """
    try:
        return step()
    except RUN_ERRORS as error:
        failure = find_python_failure(error)
        if failure is None:
            raise
    # Raise outside of the handler, so that XLA's error is not the context.
    raise failure


def strip_xla_context(error: BaseException) -> None:
    """Remove XLA's error from the ``__context__`` of a signal handler's exception.

    Nothing happens unless a callback or circuit caused the XLA error. ``error`` is the handler's
    exception, such as KeyboardInterrupt.
    """
    account = error.__context__
    if isinstance(account, RUN_ERRORS) and find_python_failure(account) is not None:
        set_exception_attribute(error, "__context__", None)


def _take_plain_jit_failure(text: str) -> BaseException | None:
    """Find the exception that an error message of a plain ``jax.jit`` identifies.

    The runtime keeps the exception of a callback or circuit under the id in the message. It is
    removed there, so a second call returns None, as for messages without an id.
    """
    return _take_failure(_PLAIN_FAILURE.match(text))


def _take_failure(match: re.Match[str] | None) -> BaseException | None:
    """Take an exception from the runtime by its id; hint at misused arguments.

    A second call with the same id returns None.

    Args:
        match: match of an error message whose first group is the id; None without a failure.

    Returns:
        the exception, a `CircuitError` for a failed circuit; or None.
    """
    failure = None if match is None else take_failure(int(match[1]))
    # Circuits run without Python, and know the message alone.
    if isinstance(failure, str):
        return CircuitError(failure)
    if failure is not None:
        add_argument_hint(failure)
    return failure


def raise_plain_jit_failures() -> None:
    """Patch JAX so that a plain ``jax.jit`` raises the exceptions of callbacks and circuits.

    Otherwise it would raise XLA's error, whose message only has the id of the exception.
    """
    patch_runtime_error(_take_plain_jit_failure)


class JitCalls:
    """Data about Bellhop's callbacks and circuits in one executable of a plain ``jax.jit``.

    `preserve_exceptions` creates it when the module is lowered; the executable keeps it alive.

    Attributes:
        table: published table of the callbacks; None if there are none.
        exceptions: collects the exceptions of calls that JAX's own callback mechanism makes.
        has_local_collectives: whether the executable's devices wait for each other; None before the
            first execution.
    """

    def __init__(self) -> None:
        self.table: CallbackTable | None = None
        self.exceptions = JaxCallbackExceptions()
        self.has_local_collectives: bool | None = None

    def __reduce__(self) -> Any:
        """Pickle as an empty object, since JAX pickles it with a serialized executable."""
        # JAX pickles this object with a serialized executable; callbacks raise an error themselves.
        return JitCalls, ()


def _run_with_delayed_failures(executable: Any, kept: Sequence[Any], run: Callable[[], T]) -> T:
    """Execute a program; raise a callback's exception when all devices have finished.

    Devices wait in collectives, and a device that stopped early would block all other devices for
    good. So if such a program calls Bellhop, exceptions of callbacks are collected until all
    devices have finished. Any other program is just run.

    Args:
        executable: XLA's ``LoadedExecutable``.
        kept: objects that the executable keeps alive; a `JitCalls` if it has calls of Bellhop.
        run: executes the program; its value is returned.

    Raises:
        BaseException: the first exception of a callback, or the exception of `run`.
    """
    calls = next((each for each in kept if isinstance(each, JitCalls)), None)
    if calls is None:
        return run()
    if calls.has_local_collectives is None:
        calls.has_local_collectives = has_local_collectives(executable)
    if not calls.has_local_collectives:
        return run()
    return run_and_raise_at_end(
        calls.table, calls.exceptions, executable, run, _take_plain_jit_failure
    )


def find_or_keep(context: mlir.ModuleContext, kind: type[T]) -> T:
    """Return the instance of a class that a JAX module keeps alive.

    If there is none, an instance is created. The executable of the module keeps it alive.

    Args:
        context: JAX's context of the module that is being lowered.
        kind: the class, which is called without arguments.
    """
    for kept in context.keepalives:
        if isinstance(kept, kind):
            return kept
    context.add_keepalive(created := kind())
    return created


def preserve_exceptions(context: mlir.ModuleContext) -> JitCalls:
    """Make a ``jax.jit`` module raise the original exceptions of its calls.

    Otherwise an execution in which a callback or circuit fails would raise XLA's error. Also makes
    executions synchronous, so that a failed execution leaves no tokens that later executions would
    wait for. Lowering rules of Bellhop call this function, any number of times for a module.

    Args:
        context: JAX's context of the module that is being lowered.

    Returns:
        the data of Bellhop's calls in this module.
    """
    # JAX's fast path would raise only the message.
    patch_fast_calls(
        lambda kept: isinstance(kept, JitCalls), save_context, _run_with_delayed_failures
    )
    raise_plain_jit_failures()
    return find_or_keep(context, JitCalls)


@contextlib.contextmanager
def pass_by_failure_id(plain_jit: bool) -> Iterator[None]:
    """Replace an exception in a ``with`` block by a RuntimeError with its id.

    The runtime keeps the original exception under the id. JAX passes on only the message of an
    exception, here ``[bellhop failure 7]`` or ``[bellhop plain jit failure 7]``.
    `find_python_failure` finds the original by the first form, and the patch of ``jax.jit`` by the
    second form.

    Args:
        plain_jit: whether the program is a plain ``jax.jit``, for which the message has the second
            form.
    """
    try:
        yield
    except BaseException as error:
        where = "plain jit " if plain_jit else ""
        # JAX logs the error, and users look for the original exception there.
        raise RuntimeError(f"[bellhop {where}failure {keep_failure(error)}]") from error
