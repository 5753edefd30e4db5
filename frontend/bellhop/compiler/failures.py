"""The exceptions behind failed runs of compiled programs: those of callbacks and of circuits."""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import jax
from jax.interpreters import mlir

from bellhop._jax.patches.fast_calls import run_without_fast_calls
from bellhop._jax.patches.runtime_error import patch_runtime_error
from bellhop.compiler.callback_hints import add_argument_hint
from bellhop.concurrency.caller_context import save_context
from bellhop.errors import CircuitError
from bellhop.mesh.joint_runs import Delegated, has_joint_devices, run_jointly
from bellhop_runtime import CallbackTable, keep_failure, take_failure

T = TypeVar("T")

# What a failed run raises: cached calls take a path of JAX's that raises ValueError.
RUN_ERRORS = (jax.errors.JaxRuntimeError, ValueError)

# The last one: an exception's own text may quote that of another run.
_FAILURE = re.compile(r".*\[bellhop (?:circuit )?failure (\d+)\]", re.DOTALL)
_PLAIN_FAILURE = re.compile(r".*\[bellhop (?:plain jit|circuit) failure (\d+)\]", re.DOTALL)


def find_python_failure(error: Exception) -> BaseException | None:
    """Return what a callback raised in a run of ours, or a circuit, if ``error`` comes of that."""
    return _take_failure(_FAILURE.match(str(error)))


def run_with_failures(step: Callable[[], T]) -> T:
    """Do something that may run a program of ours, and raise what failed there itself.

    XLA begins calls without operands while it compiles, and has what failed as of a run.
    """
    try:
        return step()
    except RUN_ERRORS as error:
        failure = find_python_failure(error)
        if failure is None:
            raise
    # Outside the handler, so that XLA's account of it is not the context.
    raise failure


def strip_xla_context(error: BaseException) -> None:
    """Leave XLA's account of a run that a signal ended out of what the signal's handler raised."""
    account = error.__context__
    if isinstance(account, RUN_ERRORS) and find_python_failure(account) is not None:
        error.__context__ = None


def _plain_failure(text: str) -> BaseException | None:
    return _take_failure(_PLAIN_FAILURE.match(text))


def _take_failure(match: re.Match[str] | None) -> BaseException | None:
    failure = None if match is None else take_failure(int(match[1]))
    # Circuits run without Python, and know the message alone.
    if isinstance(failure, str):
        return CircuitError(failure)
    if failure is not None:
        add_argument_hint(failure)
    return failure


def raise_plain_jit_failures() -> None:
    """Raise what failed in a run, though nobody of ours stands between a jit and its caller."""
    patch_runtime_error(_plain_failure)


class CallsOfOurs:
    """Kept alive by executables of JAX's with calls of ours.

    Attributes:
        table: the published table of the callbacks, where there is one.
        delegated: the calls that JAX makes for us.
        has_joint_devices: as of its executable; None before the first run.
    """

    def __init__(self) -> None:
        self.table: CallbackTable | None = None
        self.delegated = Delegated()
        self.has_joint_devices: bool | None = None

    def __reduce__(self) -> Any:
        # JAX pickles what a serialized executable keeps alive; callbacks refuse it themselves.
        return CallsOfOurs, ()


def _run_to_the_end(executable: Any, kept: Sequence[Any], run: Callable[[], T]) -> T:
    """Run a program; where its devices wait for each other, raise what failed at the end."""
    calls = next((each for each in kept if isinstance(each, CallsOfOurs)), None)
    if calls is None:
        return run()
    if calls.has_joint_devices is None:
        calls.has_joint_devices = has_joint_devices(executable)
    if not calls.has_joint_devices:
        return run()
    return run_jointly(calls.table, calls.delegated, executable, run, _plain_failure)


def find_or_keep(context: mlir.ModuleContext, kind: type[T]) -> T:
    """Return the object of a class that a module of JAX's keeps alive, made where there is none."""
    for kept in context.keepalives:
        if isinstance(kept, kind):
            return kept
    context.add_keepalive(made := kind())
    return made


def preserve_exceptions(context: mlir.ModuleContext) -> CallsOfOurs:
    """Let runs of an executable of JAX's raise what a call of ours in it raised, when it is over.

    They leave no token that later runs would wait for.
    """
    # A fast call could raise no more than the text of it.
    run_without_fast_calls(
        lambda kept: isinstance(kept, CallsOfOurs), save_context, _run_to_the_end
    )
    raise_plain_jit_failures()
    return find_or_keep(context, CallsOfOurs)


@contextlib.contextmanager
def pass_by_failure_id(plain_jit: bool) -> Iterator[None]:
    """Let an exception through JAX, which carries only its text.

    Args:
        plain_jit: whether nobody of ours stands between the run and its caller.
    """
    try:
        yield
    except BaseException as error:
        where = "plain jit " if plain_jit else ""
        # JAX logs it, and the user looks for the exception there.
        raise RuntimeError(f"[bellhop {where}failure {keep_failure(error)}]") from error
