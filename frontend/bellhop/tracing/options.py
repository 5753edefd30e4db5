"""Options of qjit, and errors for unknown or unsupported options."""

import dataclasses
import io
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TextIO, TypedDict

from bellhop.errors import format_value, unknown_option_error
from bellhop.passes import pass_names
from bellhop.settings.config import ENGINES, PRECISIONS
from bellhop.tracing.catalyst_compat import advise_on_qnode_option, check_catalyst_option

TARGETS = ("binary", "mlir", "jaxpr")

# Levels of keep_intermediate, by Catalyst's names.
_LEVELS = {"none": 0, "pipeline": 1, "changed": 2, "pass": 3}


@dataclass(frozen=True)
class CompileOptions:
    """Options of compilation, which ``qjit`` accepts as keyword arguments.

    The names are Catalyst's.

    Attributes:
        autograph: whether to convert Python control flow to compiled control flow, as
            ``run_autograph``.
        autograph_include: library modules, or their names, to convert too.
        target: how far a function with a declared signature is compiled when it is decorated:
            ``"binary"``, to an executable; ``"mlir"`` or ``"jaxpr"``, to the module. A call always
            compiles an executable.
        keep_intermediate: compilation stages to write to the workspace. ``False``, ``0``,
            ``"none"``: none; ``True``, ``1``, ``"pipeline"``: the module as lowered, as optimised,
            and as passed to XLA; ``2``, ``"changed"``: also the module after each pass that changed
            it; ``3``, ``"pass"``: after each pass.
        verbose: whether to report each compilation with the time of each stage, and after the first
            execution the backend of each circuit: Bellhop's engine, or the device's plugin.
        logfile: text file for reports; None for standard error.
        static_argnums: positions of arguments that are part of the program, not its input. On a
            compiled function, all positions as a tuple.
        static_argnames: names of such arguments. On a compiled function, all names as a tuple.
        donate_argnums: positions of arguments whose memory the program may reuse for its results,
            as in ``jax.jit``: these arrays are deleted by the call.
        donate_argnames: names of such arguments, as in ``jax.jit``. If only one of the two options
            is set, it applies to positional and keyword arguments.
        keep_unused: whether the executable keeps unused arguments, as in ``jax.jit``. Otherwise
            they are neither copied to the host nor awaited.
        inline: accepted for compatibility with ``jax.jit``, without effect: a qjit function in
            another traced function is always inlined.
        compiler_options: XLA options of the host program by name, as in ``jax.jit``. Inside another
            program, that program's options apply; eager transformations and regions on other
            devices have none. A function with such options cannot be saved.
        out_shardings: devices of the results, as in ``jax.jit``: a device, its name as for
            ``accelerate``, or a ``jax.sharding.Sharding``, for all results, or a pytree of these
            that is a prefix of the result's structure; None is the host. The results of a region on
            that device stay there, together with cheap operations on them; other results are copied
            at the program's end. Inside another program, that program's option applies.
        disable_assertions: whether to compile without ``debug_assert``.
        circuit_transform_pipeline: passes of all circuits that have no own pipeline, in the format
            of ``pipeline``.
        seed: seed of mid-circuit outcomes and samples, from 0 to 2**64 - 1: each call with the same
            arguments gives the same results, in every process. Without it each call draws new
            results: from a sequence seeded by ``qml.device(..., seed=)`` of the first device with
            random outcomes, or else from a random seed. Inside another qjit function, the outer
            seed applies; a plain ``jax.jit`` has no seed.
        engine: backend of circuits on Lightning devices. ``"auto"``: Bellhop's state-vector engine
            if it supports the whole circuit (on devices other than lightning.qubit for any size),
            else the device's plugin; ``"plugin"``: the plugin. The default is the environment
            variable ``BELLHOP_ENGINE``, or else ``"auto"``.
        precision: precision of states in Bellhop's engine: ``"double"``, or ``"single"``, which
            takes half the memory and less time. Sums over amplitudes are accumulated in double
            precision. The default is the device's ``c_dtype``, or ``"single"`` if JAX's 64-bit
            types are off.
        concurrent_callbacks: number of threads that run independent pure callbacks of a CPU program
            concurrently: each starts when its arguments are ready, and the program waits where a
            result is first used; the program's thread runs callbacks that no thread has begun until
            then. Each runs in a copy of the program's context (``contextvars``). 1: one after
            another.

    Example:
        >>> import bellhop
        >>> f = bellhop.qjit(lambda x: 2 * x, seed=7)
        >>> f.compile_options.seed
        7
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
        """Check the values of the options.

        Raises:
            ValueError: for a value that an option does not have.
            TypeError: for a value of the wrong type.
        """
        is_integer = hasattr(self.seed, "__index__")
        if self.seed is not None and not (is_integer and 0 <= operator.index(self.seed) < 2**64):
            error = ValueError if is_integer else TypeError
            raise error(
                f"qjit: seed must be an integer from 0 to 2**64 - 1, got {format_value(self.seed)}."
            )
        if self.engine not in (None, *ENGINES):
            raise ValueError(
                f"qjit: engine must be one of {', '.join(ENGINES)}, got {self.engine!r}."
            )
        if self.precision not in (None, *PRECISIONS):
            raise ValueError(
                f"qjit: precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}."
            )
        n = self.concurrent_callbacks
        if isinstance(n, bool) or not hasattr(n, "__index__") or operator.index(n) < 1:
            raise ValueError(
                "qjit: concurrent_callbacks must be a positive integer, got "
                f"{format_value(n)}. Pass 1 to run callbacks one after another."
            )
        if self.target not in TARGETS:
            raise ValueError(
                f"qjit: target must be one of {', '.join(TARGETS)}, got {self.target!r}."
            )
        is_binary = isinstance(self.logfile, io.RawIOBase | io.BufferedIOBase)
        if self.logfile is not None and (is_binary or not hasattr(self.logfile, "write")):
            raise TypeError(
                f"qjit: logfile must be an open text file, got {format_value(self.logfile)}. "
                "Pass open('qjit.log', 'w'), or None for standard error."
            )
        check_modules("qjit: autograph_include", self.autograph_include)
        options = self.compiler_options
        if options is not None and not (
            isinstance(options, Mapping) and all(isinstance(name, str) for name in options)
        ):
            raise TypeError(
                "qjit: compiler_options takes XLA options by name, as "
                f"{{'xla_cpu_enable_fast_min_max': True}}, got {format_value(options)}."
            )
        self.intermediate_level  # noqa: B018
        self.circuit_passes  # noqa: B018

    @property
    def circuit_passes(self) -> tuple[str, ...]:
        """Names of the passes in ``circuit_transform_pipeline``."""
        return pass_names("qjit", self.circuit_transform_pipeline or {})

    @property
    def intermediate_level(self) -> int:
        """Value of ``keep_intermediate`` as an integer from 0 (none) to 3 (all stages).

        Raises:
            ValueError: if the option has another value.
        """
        level = self.keep_intermediate
        if isinstance(level, str):
            number = _LEVELS.get(level, -1)
        else:
            number = operator.index(level or 0) if hasattr(level or 0, "__index__") else -1
        if number not in _LEVELS.values():
            raise ValueError(
                "qjit: keep_intermediate must be a bool, an integer from 0 to 3, or one of "
                f"{', '.join(_LEVELS)}; got {level!r}."
            )
        return number


def check_modules(label: str, modules: Any) -> None:
    """Raise an error for an option that is not a sequence of modules or module names.

    Args:
        label: name of the option, for errors.
        modules: value of the option; an empty value is accepted.

    Raises:
        TypeError: for anything but modules and names, and for a single string.
    """
    listed = () if isinstance(modules, str) or not isinstance(modules, Iterable) else (*modules,)
    if (modules and not listed) or not all(isinstance(m, str | ModuleType) for m in listed):
        raise TypeError(
            f"{label} takes modules and names of modules, as ['package.module'], got "
            f"{format_value(modules)}."
        )


class OptionsByName(TypedDict, total=False):
    """Types of the keyword arguments of ``qjit``: the options of `CompileOptions`."""

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
    """Convert the keyword arguments of ``qjit`` to `CompileOptions`.

    Args:
        options: values by name of the option.

    Raises:
        CompileError: for an option of Catalyst or ``jax.jit`` that would change results.
        TypeError: for an unknown option, or a value of a wrong type.
        ValueError: for a value that an option does not have.

    Warns:
        UserWarning: for an option of Catalyst that changes no results.
    """
    names = [field.name for field in dataclasses.fields(CompileOptions)]
    known = {}
    for name, value in options.items():
        if name in names:
            known[name] = value
        elif not check_catalyst_option(name, value):
            raise unknown_option_error("qjit", name, names, advise_on_qnode_option(name))
    return CompileOptions(**known)
