"""The options of qjit: what there is, and what is refused by name."""

import dataclasses
import io
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TextIO, TypedDict

from bellhop.errors import format_value, suggest_name
from bellhop.passes import pass_names
from bellhop.settings.config import ENGINES, PRECISIONS
from bellhop.tracing.catalyst_compat import check_catalyst_option

TARGETS = ("binary", "mlir", "jaxpr")

# How much keep_intermediate keeps, and its names in the words of Catalyst.
_LEVELS = {"none": 0, "pipeline": 1, "changed": 2, "pass": 3}


@dataclass(frozen=True)
class CompileOptions:
    """How a function is compiled; ``qjit`` takes these as keyword arguments.

    Attributes:
        autograph: whether Python's control flow becomes the program's, as ``run_autograph`` says.
        autograph_include: modules, or names of modules, to convert although they are libraries.
        target: how far a function goes whose signature is declared, when it is decorated:
            ``"binary"``, to an executable; ``"mlir"`` or ``"jaxpr"``, to the module.  A call
            makes an executable in any case.
        keep_intermediate: which stages of compilation are written to the workspace.  ``False``,
            ``0``, ``"none"``: none; ``True``, ``1``, ``"pipeline"``: the module as lowered,
            optimised, and as XLA gets it; ``2``, ``"changed"``: the module after each pass that
            changed it; ``3``, ``"pass"``: after each pass.
        verbose: whether to report each compilation, with the time that each stage took, and after
            the first run what ran each circuit: Bellhop's engine, or the device's plugin.
        logfile: where reports go; None is standard error.
        static_argnums: positions of arguments that are part of the program, not its input.  Of a
            compiled function, all of them, as a tuple.
        static_argnames: names of such arguments, likewise.
        donate_argnums: positions of arguments whose memory the program may take for its results,
            as ``jax.jit``'s: they are gone after the call.
        donate_argnames: names of such arguments, as ``jax.jit``'s.  Where one of the two options
            is given, an argument is donated by position and by keyword.
        keep_unused: whether the executable takes arguments that the function does not use, as
            ``jax.jit``'s does.  Without it they are neither moved to the host nor waited for.
        inline: taken because ``jax.jit`` takes it, and without effect: a qjit function that is
            called in another traced function is always inlined.
        compiler_options: XLA options of the host's program by name, as ``jax.jit``'s.  Inside
            another program, that program's options count; eager transformations and regions on
            other devices have none.  A function with such options is not saved.
        out_shardings: where results go, as ``jax.jit``'s: a device, its name as ``accelerate``
            takes it, or a ``jax.sharding.Sharding``, for all of them, or a pytree of these that is
            the upper part of the result's; None is the host.  What a region of that device makes
            stays there, with cheap operations behind it; the rest is moved at the program's end.
            Inside another program, that one's counts.
        disable_assertions: whether the program is compiled without its ``debug_assert``.
        circuit_transform_pipeline: the passes of all circuits that have none of their own, as
            ``pipeline`` takes them.
        seed: of the outcomes of measurements and the samples, from 0 to 2**64 - 1: each call
            with the same arguments gives the same, in every process.  Without it each call
            draws others: a sequence that ``qml.device(..., seed=)`` of the first device with
            random outcomes seeds, and that differs without that too.  Inside another qjit
            function, that one's seed counts; in a plain ``jax.jit`` none does.
        engine: what runs circuits on Lightning's devices.  ``"auto"``: Bellhop's own state-vector
            engine, where all of the circuit is something that it can do (on other devices than
            lightning.qubit of any size), else the device's plugin; ``"plugin"``: the plugin.
            Without it, what the environment variable ``BELLHOP_ENGINE`` says, or else
            ``"auto"``.
        precision: of the states of circuits that Bellhop's engine runs: ``"double"``, or
            ``"single"``, which takes half the memory and less time.  Numbers are as precise as
            that; sums over amplitudes are made in double precision.  Without it, that of a
            device's ``c_dtype``, and without JAX's 64-bit types single.
        concurrent_callbacks: how many threads run pure callbacks of a program on the CPU at once,
            where none needs the results of another: each starts as soon as its arguments are there,
            and the program waits where a result is first used; one that no thread has taken until
            then it makes itself.  Each has a copy of the context (``contextvars``) of the thread
            that runs the program.  1: one after another.

    Example:
        >>> import bellhop
        >>> f = bellhop.qjit(lambda x: 2 * x, seed=7)
        >>> f.compile_options.seed
        7

    The names are those of Catalyst's options.
    """

    autograph: bool = False
    autograph_include: Sequence[Any] = ()
    target: str = "binary"
    keep_intermediate: bool | int | str | None = False
    verbose: bool = False
    logfile: TextIO | None = None
    static_argnums: int | Iterable[int] | None = None
    static_argnames: str | Iterable[str] | None = None
    donate_argnums: int | Iterable[int] | None = None
    donate_argnames: str | Iterable[str] | None = None
    keep_unused: bool = False
    inline: Any = False
    compiler_options: Mapping[str, Any] | None = None
    out_shardings: Any = None
    disable_assertions: bool = False
    circuit_transform_pipeline: Mapping[str, Mapping[str, Any]] | None = None
    seed: int | None = None
    engine: str | None = None
    precision: str | None = None
    concurrent_callbacks: int = 1

    def __post_init__(self) -> None:
        is_integer = hasattr(self.seed, "__index__")
        if self.seed is not None and not (is_integer and 0 <= operator.index(self.seed) < 2**64):
            error = ValueError if is_integer else TypeError
            raise error(
                f"qjit: a seed is from 0 to 2**64 - 1, an integer; this one is "
                f"{format_value(self.seed)}."
            )
        if self.engine not in (None, *ENGINES):
            raise ValueError(f"qjit: engine is one of {', '.join(ENGINES)}, not {self.engine!r}.")
        if self.precision not in (None, *PRECISIONS):
            raise ValueError(
                f"qjit: precision is one of {', '.join(PRECISIONS)}, not {self.precision!r}."
            )
        n = self.concurrent_callbacks
        if isinstance(n, bool) or not hasattr(n, "__index__") or operator.index(n) < 1:
            raise ValueError(
                "qjit: concurrent_callbacks is how many callbacks run at once, an integer from 1 "
                f"on, not {format_value(n)}. Give 1 to call one after another."
            )
        if self.target not in TARGETS:
            raise ValueError(f"qjit: target is one of {', '.join(TARGETS)}, not {self.target!r}.")
        is_binary = isinstance(self.logfile, io.RawIOBase | io.BufferedIOBase)
        if self.logfile is not None and (is_binary or not hasattr(self.logfile, "write")):
            raise TypeError(
                f"qjit: logfile is where text is written to, not {format_value(self.logfile)}. "
                "Give an open text file, as open('qjit.log', 'w'), or None for standard error."
            )
        check_modules("qjit: autograph_include", self.autograph_include)
        options = self.compiler_options
        if options is not None and not (
            isinstance(options, Mapping) and all(isinstance(name, str) for name in options)
        ):
            raise TypeError(
                "qjit: compiler_options takes XLA options by name, as "
                f"{{'xla_cpu_enable_fast_min_max': True}}, and is {format_value(options)}."
            )
        self.intermediate_level  # noqa: B018
        self.circuit_passes  # noqa: B018

    @property
    def circuit_passes(self) -> tuple[str, ...]:
        """The names of the passes of ``circuit_transform_pipeline``."""
        return pass_names("qjit", self.circuit_transform_pipeline or {})

    @property
    def intermediate_level(self) -> int:
        """The number that ``keep_intermediate`` stands for."""
        level = self.keep_intermediate
        number = _LEVELS.get(level, -1) if isinstance(level, str) else int(level or 0)
        if number not in _LEVELS.values():
            raise ValueError(
                "qjit: keep_intermediate is a bool, a number from 0 to 3, or one of "
                f"{', '.join(_LEVELS)}; not {level!r}."
            )
        return number


def check_modules(label: str, modules: Any) -> None:
    """Refuse what are no modules for autograph to convert.

    Args:
        label: is given them, for errors.
        modules: a sequence of modules and names of modules.

    Raises:
        TypeError: for anything else.
    """
    listed = () if isinstance(modules, str) or not isinstance(modules, Iterable) else (*modules,)
    if (modules and not listed) or not all(isinstance(m, str | ModuleType) for m in listed):
        raise TypeError(
            f"{label} takes modules and names of modules, as ['package.module'], and is "
            f"{format_value(modules)}."
        )


class OptionsByName(TypedDict, total=False):
    """The options of ``CompileOptions`` as keyword arguments; none of them need be given."""

    autograph: bool
    autograph_include: Sequence[Any]
    target: str
    keep_intermediate: bool | int | str | None
    verbose: bool
    logfile: TextIO | None
    static_argnums: int | Iterable[int] | None
    static_argnames: str | Iterable[str] | None
    donate_argnums: int | Iterable[int] | None
    donate_argnames: str | Iterable[str] | None
    keep_unused: bool
    inline: Any
    compiler_options: Mapping[str, Any] | None
    out_shardings: Any
    disable_assertions: bool
    circuit_transform_pipeline: Mapping[str, Mapping[str, Any]] | None
    seed: int | None
    engine: str | None
    precision: str | None
    concurrent_callbacks: int


def compile_options(options: Mapping[str, Any]) -> CompileOptions:
    """Return options given by name.

    Raises:
        CompileError: for an option that only Catalyst has and that would change results.
        TypeError: for an option that there is not.

    Warns:
        UserWarning: for an option that only Catalyst has and that changes no results.
    """
    names = [field.name for field in dataclasses.fields(CompileOptions)]
    known = {}
    for name, value in options.items():
        if name in names:
            known[name] = value
        elif not check_catalyst_option(name, value):
            raise TypeError(
                f"qjit has no option '{name}'; there are {', '.join(names)}."
                f"{suggest_name(name, names)}"
            )
    return CompileOptions(**known)
