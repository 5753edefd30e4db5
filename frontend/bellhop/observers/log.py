"""`log`: records of the ``logging`` module from compiled programs."""

import dataclasses
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Effect
from jax.interpreters import mlir

from bellhop.base.public_function import public_function
from bellhop.base.source import user_function, user_site
from bellhop.base.types import Aval, Operand
from bellhop.callbacks.callback import bind_static_arguments
from bellhop.callbacks.callback_type import DebugCall, Pure, ordered_effect
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.callback_target import CallbackTarget, is_array_like
from bellhop.compiler.lowering_context import current_lowering
from bellhop.concurrency.caller_context import call_in_caller_context
from bellhop.observers.print import check_format
from bellhop_mlir.dialects.callback import set_call_interval

_DEFAULT_LOGGER = "bellhop"


@public_function
def log(
    level: int | str,
    fmt: str,
    *args: Any,
    every: int = 1,
    when: Any = True,
    logger: str | logging.Logger | None = None,
    **kwargs: Any,
) -> None:
    """Log a message through Python's ``logging`` when the program reaches this call.

    The record carries the file, function and line of this call. Records keep program order. The
    compiled program decides whether a message is logged; messages that are not logged make no call
    of Python.

    Args:
        level: the level of the record, such as ``logging.INFO`` or ``"INFO"``.
        fmt: a format string, filled with the values of `args` and `kwargs` by ``str.format``.
        args: pytrees of arrays, or static values such as strings.
        every: number of calls of this statement for each record; the first call is logged. A
            ``qjit`` program starts to count in each run, and counts only calls for which `when` is
            true and the level is enabled. Other programs continue to count from run to run.
        when: a bool, or a traced bool of shape ``()``: whether the message is logged.
        logger: a logger of ``logging.getLogger``, or its name; ``"bellhop"`` if None.
        kwargs: values of the named fields of the format string.

    The level of the logger is read in each run of a ``qjit`` program, so that a change of the level
    does not need a new program.

    Raises:
        ValueError: for an unknown level, for `every` below 1, and for a format string that does
            not fit the values.
        TypeError: if `level` is neither a number nor a name, `fmt` is not a string, `when` is not a
            scalar of type bool, or `logger` is not a logger.

    Example:
        >>> import bellhop, jax, logging, sys
        >>> logging.basicConfig(stream=sys.stdout, level="INFO", format="%(message)s", force=True)
        >>> @bellhop.qjit
        ... def descend(x):
        ...     def step(i, x):
        ...         bellhop.debug.log("INFO", "step {}: {:.2f}", i, x, every=2)
        ...         return 0.5 * x
        ...     return jax.lax.fori_loop(0, 4, step, x)
        >>> _ = descend(1.0)
        step 0: 1.00
        step 2: 0.25
    """
    number = _level_number(level)
    name = _logger_name(logger)
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise ValueError(f"log: every is {every!r}, expected an integer of at least 1.")
    if not is_array_like(when) or jnp.shape(when) != () or jnp.result_type(when) != np.dtype(bool):
        raise TypeError(
            f"log: when is {when!r}, expected a bool of shape (). Pass a condition such as x > 0; "
            "reduce an array with jnp.any or jnp.all."
        )
    if not isinstance(fmt, str):
        raise TypeError(f"log: the message is {fmt!r}, expected a format string.")
    check_format("log", fmt, args, kwargs, ("every", "when", "logger"))
    strings = fmt, str(number), name, user_site(), user_function()
    function, leaves, in_tree = bind_static_arguments("log", LogRecorder(*strings), args, kwargs)
    counting, *_ = bind_static_arguments("log", LogCounter(*strings, str(every)), args, kwargs)
    target = _LOG.target(
        counting, in_tree, recorder=function, level_check=LevelCheck(*strings[1:3]), every=every
    )
    _LOG.bind(target, [when, *leaves])


def _level_number(level: int | str) -> int:
    """Convert a log level to its number in ``logging``: ``"info"`` gives 20.

    Raises:
        ValueError: for an unknown name.
        TypeError: for a value that is neither a number nor a name.
    """
    if isinstance(level, int) and not isinstance(level, bool):
        return level
    if not isinstance(level, str):
        raise TypeError(
            f"log: the level is {level!r}, expected a number or a name, such as 'INFO'. Pass the "
            "level first, and the format string second."
        )
    names = logging.getLevelNamesMapping()
    if level.upper() not in names:
        raise ValueError(
            f"log: there is no level {level!r}; there are {', '.join(names)}. Pass the level "
            "first: log('INFO', 'loss {}', loss)."
        )
    return names[level.upper()]


def _logger_name(logger: str | logging.Logger | None) -> str:
    """Return the name by which ``logging.getLogger`` finds a user's logger.

    Args:
        logger: the user's option: a logger, its name, or None for Bellhop's logger.

    Raises:
        TypeError: for a value of another type, and for a logger that ``getLogger`` does not return.
    """
    if logger is None:
        return _DEFAULT_LOGGER
    if isinstance(logger, str):
        return logger
    if isinstance(logger, logging.Logger) and logging.getLogger(logger.name) is logger:
        return logger.name
    raise TypeError(
        f"log: logger is {logger!r}, expected a logger from logging.getLogger, or a logger's name."
    )


class LogRecorder(BuiltinFunction):
    """Callable that a running program calls to log a message, if the level is enabled.

    Args:
        *arguments: strings: the format string, the number of the level, the name of the logger,
            ``file:line`` of the user's call of ``log``, and the name of the function around it.
    """

    __name__ = "log"
    prints = True
    is_formatter = True

    @staticmethod
    def check_init_args(fmt: str, level: str, name: str, site: str, function: str) -> None:  # type: ignore[override]
        """Raise a ValueError unless ``level`` is a number; the other strings may be any."""
        del fmt, name, site, function
        int(level)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Log the message with these values."""
        call_in_caller_context(self._record, args, kwargs)

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Create the log record and pass it to its logger, if the level is enabled.

        It runs in the context variables of the caller of the program.
        """
        fmt, level, name, site, function = self.arguments[:5]
        logger, number = logging.getLogger(name), int(level)
        if not logger.isEnabledFor(number):
            return
        file, _, line = site.rpartition(":")
        logger.handle(
            logger.makeRecord(
                name,
                number,
                file or "<unknown>",
                int(line) if line.isascii() and line.isdigit() else 0,
                self.format(fmt, args, kwargs),
                (),
                None,
                function,
            )
        )


class LogCounter(LogRecorder):
    """Callable that logs the first of every n calls, for programs that do not count calls.

    ``qjit`` programs count the calls of a log statement themselves, and use `LogRecorder`; a plain
    ``jax.jit`` and eager code use this class. Its count continues from run to run.

    Args:
        *arguments: as for `LogRecorder`, and then n, the number of calls for each record.
    """

    def __init__(self, *arguments: str) -> None:
        super().__init__(*arguments)
        self._lock = threading.Lock()
        self._calls = 0

    @staticmethod
    def check_init_args(*arguments: str) -> None:
        """Raise an error unless the level and the number of calls are numbers.

        Raises:
            TypeError: for a wrong number of strings.
            ValueError: for a level that is not a number, or fewer than one call.
        """
        *others, every = arguments
        LogRecorder.check_init_args(*others)
        if int(every) < 1:
            raise ValueError(f"log: every is {every}, expected an integer of at least 1.")

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Count the call; log the message if it is the first of each n calls."""
        with self._lock:
            is_due = self._calls % int(self.arguments[5]) == 0
            self._calls += 1
        if is_due:
            super().__call__(*args, **kwargs)


class LevelCheck(BuiltinFunction):
    """Function that a running program calls to check whether a level is enabled.

    Args:
        *arguments: level number and logger name.
    """

    __name__ = "log_level"
    kinds = ("pure",)

    @staticmethod
    def check_init_args(level: str, name: str) -> None:  # type: ignore[override]
        """Raise a ValueError unless the level is a number."""
        del name
        int(level)

    def accepts_types(
        self, arguments: Sequence[ShapedArray], results: Sequence[ShapedArray]
    ) -> bool:
        """Return whether programs may call the function with these types.

        The function takes no arguments and returns a scalar bool.

        Args:
            arguments: types of the arguments of a call.
            results: types of its results.
        """
        return not arguments and [(x.shape, x.dtype) for x in results] == [((), np.dtype(bool))]

    def __call__(self) -> np.bool_:
        """Return whether the level is enabled."""
        level, name = self.arguments
        return np.bool_(logging.getLogger(name).isEnabledFor(int(level)))


@dataclass(frozen=True)
class LogTarget(CallbackTarget):
    """Description of a log statement in a program: its functions, types and options.

    The operands of the statement are ``when`` and the values of the format string.

    Attributes:
        recorder: the function that logs the message in ``qjit`` programs, which count the calls of
            the statement themselves. All other programs call ``function``, which counts in Python.
        level_check: the function that checks the level of the logger.
        every: number of calls for each record.
    """

    recorder: Callable[..., Any] | None = None
    level_check: BuiltinFunction | None = None
    every: int = 1

    __hash__ = CallbackTarget.__hash__

    def to_call(self, function: Callable[..., Any] | None) -> CallbackTarget:
        """Return the target of the call that a log statement makes if it is enabled.

        Args:
            function: attribute `recorder` or `function`. It takes the values of the format string,
                without the operand ``when``.
        """
        fields = {
            each.name: getattr(self, each.name) for each in dataclasses.fields(CallbackTarget)
        }
        return CallbackTarget(**{**fields, "function": function})


class _LogCall(DebugCall):
    """Callback type of the call that a log statement makes if it is enabled.

    `qjit` programs make only the first of every n calls; n is the primitive's parameter ``every``.
    """

    def abstract_eval(
        self, *avals: Aval, target: CallbackTarget, every: int = 1
    ) -> tuple[Sequence[Any], frozenset[Effect]]:
        """Abstract evaluation rule of the call in a log statement: no results, one effect."""
        return super().abstract_eval(*avals, target=target)

    def lower(
        self,
        ctx: mlir.LoweringRuleContext,
        *operands: Any,
        target: CallbackTarget,
        every: int = 1,
    ) -> Sequence[Any]:
        """Lower the call in a log statement; in `qjit` programs, mark it with ``every``.

        The compiler pass ``thin-calls`` then keeps only the first of ``every`` calls at run time.
        """
        results = super().lower(ctx, *operands, target=target)
        if every > 1 and current_lowering() is not None:
            set_call_interval(ctx.tokens_out.get(ordered_effect).owner, every)
        return results


class _LogType(DebugCall):
    """Callback type of log statements, by which JAX traces, batches and lowers them.

    A statement is lowered to a conditional around the call that logs the message.
    """

    def run(self, *leaves: Operand, target: Any) -> list[Any]:
        """Log now if ``when`` is true: the primitive's impl rule, outside of programs.

        Python counts the calls for which ``when`` is true, and logs the first of every n.

        Args:
            *leaves: ``when``, then the values of the format string.
            target: the log statement, a `LogTarget`.

        Returns:
            an empty list, since a log statement has no results.
        """
        when, *values = leaves
        return super().run(*values, target=target.to_call(target.function)) if when else []

    def lower(self, ctx: mlir.LoweringRuleContext, *operands: Any, target: Any) -> Sequence[Any]:
        """Lower a log statement to a conditional around the call that logs.

        A batched statement is lowered to a loop of statements for one element, and a partitioned
        statement like other callbacks.

        Args:
            ctx: JAX's lowering context.
            *operands: ``when``, then the values of the format string.
            target: the log statement, a `LogTarget`.
        """
        if target.program_loops or target.partitioned:
            return super().lower(ctx, *operands, target=target)
        counts = current_lowering() is not None
        call = target.to_call(target.recorder if counts else target.function)
        level = _LEVEL.target(
            target.level_check,
            jax.tree.structure(((), {})),
            ((ShapedArray((), np.dtype(bool)),), jax.tree.structure(0)),
            site=target.site,
        )

        def emit(*values: Any) -> None:
            """Bind the call that logs the values."""
            _LOG_CALL.primitive.bind(*values, target=call, every=target.every)

        def guarded(when: Any, *values: Any) -> list[Any]:
            """Call `emit` if ``when`` is true and the level of the logger is enabled."""
            is_enabled = _LEVEL.bind(level, [])
            jax.lax.cond(is_enabled & when, emit, lambda *_: None, *values)
            return []

        return mlir.lower_fun(guarded, multiple_results=True)(ctx, *operands)


_LOG = _LogType("log", target_type=LogTarget)
_LOG_CALL = _LogCall("log", primitive="log_call")
_LEVEL = Pure("log_level")
