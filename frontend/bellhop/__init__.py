"""Bellhop: hybrid quantum-classical programs that talk to the world outside them.

``qjit`` compiles them; ``pure_callback``, ``io_callback``, ``tap``, ``debug`` and ``accelerate``
are how they reach Python and other devices; QNodes run on PennyLane Lightning.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from bellhop._versions import warn_of_unknown_jax

# Before what of JAX may be missing in an unknown version.
warn_of_unknown_jax()

from bellhop._pennylane.patches.lightning_states import separate_states  # noqa: E402
from bellhop.settings.config import (  # noqa: E402
    configure_jax,
    configure_taps,
    read_environment_engine,
)

configure_jax()
configure_taps()
read_environment_engine()  # so that a wrong one is an error here
separate_states()

from bellhop import debug, host_callback, passes  # noqa: E402, F401
from bellhop.accelerate import accelerate  # noqa: E402
from bellhop.arguments.declared_types import infer  # noqa: E402
from bellhop.cache import enable_cache  # noqa: E402
from bellhop.callbacks.buffer_callback import buffer_callback  # noqa: E402
from bellhop.callbacks.callback import callback  # noqa: E402
from bellhop.callbacks.io_callback import io_callback  # noqa: E402
from bellhop.callbacks.pure_callback import PureCallback, pure_callback  # noqa: E402
from bellhop.compiled.loaded_function import load  # noqa: E402
from bellhop.compiled.qjit import QJIT, qjit  # noqa: E402
from bellhop.compiler import regions  # noqa: E402, F401
from bellhop.control_flow.cond import cond  # noqa: E402
from bellhop.control_flow.for_loop import for_loop  # noqa: E402
from bellhop.control_flow.progress import progress  # noqa: E402
from bellhop.control_flow.switch import switch  # noqa: E402
from bellhop.control_flow.while_loop import while_loop  # noqa: E402
from bellhop.drawing.draw import Drawing, draw, draw_graph  # noqa: E402
from bellhop.errors import (  # noqa: E402
    AutoGraphError,
    CallbackException,
    CircuitError,
    CompileError,
    DifferentiableCompileError,
    NotCompiledError,
    ResultTypeError,
)
from bellhop.frameworks.call_torch import TorchFunction, call_torch  # noqa: E402
from bellhop.frameworks.to_torch import to_torch  # noqa: E402
from bellhop.measure import measure  # noqa: E402
from bellhop.mitigate import mitigate_with_zne  # noqa: E402
from bellhop.native.native_callback import NativeCallback, native_callback  # noqa: E402
from bellhop.observers.assertion import debug_assert  # noqa: E402
from bellhop.observers.barrier import barrier_wait, tap_queue_limit  # noqa: E402
from bellhop.observers.tap import tap  # noqa: E402
from bellhop.ops import adjoint, ctrl  # noqa: E402
from bellhop.passes import pipeline  # noqa: E402
from bellhop.profiling.profile import Profile, profile  # noqa: E402
from bellhop.profiling.profile_entry import ProfileRow  # noqa: E402
from bellhop.profiling.watchdog import watch_by_environment  # noqa: E402
from bellhop.tracing import measurement_tracer  # noqa: E402, F401
from bellhop.tracing.options import CompileOptions  # noqa: E402
from bellhop.transformations.grad import grad, jacobian, value_and_grad  # noqa: E402
from bellhop.transformations.jvp_vjp import jvp, vjp  # noqa: E402
from bellhop.transformations.vmap import vmap  # noqa: E402

watch_by_environment()

# What users set: whether what autograph cannot convert is an error, or not even a warning.
autograph_strict_conversion = False
autograph_ignore_fallbacks = False

_AUTOGRAPH = {
    "autograph_source": "run_autograph",
    "disable_autograph": "settings",
    "run_autograph": "run_autograph",
}


if TYPE_CHECKING:
    # A function that answers for every name would hide from type checkers what there is.
    from bellhop.autograph.run_autograph import autograph_source, run_autograph
    from bellhop.autograph.settings import disable_autograph

    __version__: str
else:

    def __getattr__(name: str) -> Any:
        """Compute ``__version__`` or import an AutoGraph function, at its first use.

        Python calls it for names that the module does not have.

        Raises:
            AttributeError: for all other names; suggests an object of Bellhop that has the name.
        """
        if name == "__version__":
            metadata = importlib.import_module("importlib.metadata")
            return globals().setdefault(name, metadata.version("pennylane-bellhop"))
        if name in _AUTOGRAPH:
            module = importlib.import_module(f"bellhop.autograph.{_AUTOGRAPH[name]}")
            return globals().setdefault(name, getattr(module, name))
        hint = ""
        for owner, value in (("f", QJIT), ("bellhop.debug", debug), ("bellhop.passes", passes)):
            if not name.startswith("_") and name in dir(value):
                function = " (f is a compiled function)" * (owner == "f")
                hint = f". Write {owner}.{name}{function}."
        raise AttributeError(
            f"module 'bellhop' has no attribute '{name}'{hint}",
            name=name,
            obj=sys.modules[__name__],
        )

    def __dir__() -> list[str]:
        """Return the public names, without the imports of this module."""
        return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


__all__ = [
    "QJIT",
    "AutoGraphError",
    "CallbackException",
    "CircuitError",
    "CompileError",
    "CompileOptions",
    "DifferentiableCompileError",
    "Drawing",
    "NativeCallback",
    "NotCompiledError",
    "Profile",
    "ProfileRow",
    "PureCallback",
    "ResultTypeError",
    "TorchFunction",
    "accelerate",
    "adjoint",
    "autograph_ignore_fallbacks",
    "autograph_source",
    "autograph_strict_conversion",
    "barrier_wait",
    "buffer_callback",
    "call_torch",
    "callback",
    "cond",
    "ctrl",
    "debug",
    "debug_assert",
    "disable_autograph",
    "draw",
    "draw_graph",
    "enable_cache",
    "for_loop",
    "grad",
    "host_callback",
    "infer",
    "io_callback",
    "jacobian",
    "jvp",
    "load",
    "measure",
    "mitigate_with_zne",
    "native_callback",
    "passes",
    "pipeline",
    "profile",
    "progress",
    "pure_callback",
    "qjit",
    "run_autograph",
    "switch",
    "tap",
    "tap_queue_limit",
    "to_torch",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]
