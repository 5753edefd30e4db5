"""State of tracing, per thread."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import AxisType

from bellhop.base.scoped_state import ScopedState

if TYPE_CHECKING:
    from bellhop.devices.devices import StateAxes
    from bellhop.tracing.current_circuit import CurrentCircuit, GateRecorder
    from bellhop.tracing.options import CompileOptions

# Exceptions that JAX raises if Python needs the value of a tracer.
CONCRETIZATION_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
# Or if a tracer is used after its trace.
NOT_TRACEABLE = (*CONCRETIZATION_ERRORS, jax.errors.UnexpectedTracerError)


@dataclass(frozen=True)
class TraceState:
    """State of tracing in this thread, which ``with`` blocks override.

    `trace_state` returns the current state. Outside of programs all fields have their defaults.

    Attributes:
        is_tracing: whether a Bellhop program is being traced.
        options: options of the outermost qjit function that is being traced; None outside.
        seeds: list that receives the seeds of the program's quantum devices; None outside.
        converts: whether autograph converts called functions, even without the option.
        modules: names of library modules that autograph converts too.
        disabled: nesting depth of ``disable_autograph``.
        unrolls: whether Python runs loops with static trip counts.
        in_region: whether a region on another device is being traced.
        platform: platform of the region's device, such as "tpu"; empty outside of regions.
        state_axes: mesh axes over which the region partitions states of circuits; None if
            states are not partitioned.
        circuit: the circuit that receives gates; None outside of QNodes.
        mitigation: settings of zero-noise extrapolation for QNodes that are called now; None
            outside of ``mitigate_with_zne``.
        folding: how circuits that are traced now are folded, to scale their noise; None if they
            are not.
        obstacle: reason why gates that are traced now cannot be differentiated, for errors; empty
            if they can.
        print_options: NumPy's print options when tracing of the qjit function began.
        transposing: description of the derivative in which loops with dynamic trip counts are
            transposed, for errors; None outside of such derivatives.
    """

    is_tracing: bool = False
    options: "CompileOptions | None" = None
    seeds: list[int] | None = None
    converts: bool = False
    modules: tuple[str, ...] = ()
    disabled: int = 0
    unrolls: bool = False
    in_region: bool = False
    platform: str = ""
    state_axes: "StateAxes | None" = None
    circuit: "CurrentCircuit | None" = None
    mitigation: Any = None
    folding: Any = None
    obstacle: str = ""
    print_options: "dict[str, Any] | None" = None
    transposing: str | None = None

    @property
    def partitions_states(self) -> bool:
        """Whether a circuit traced now partitions its state vector over devices of a mesh."""
        # Inside of jax.shard_map each device runs its circuits alone.
        is_inside = AxisType.Manual in jax.sharding.get_abstract_mesh().axis_types
        return self.state_axes is not None and not is_inside


_state = ScopedState("bellhop_trace_state", TraceState())
trace_state = _state.now
override_trace_state = _state.override


def is_tracing() -> bool:
    """Return whether a Bellhop program, such as the body of a qjit function, is being traced."""
    return trace_state().is_tracing


def current_options() -> "CompileOptions | None":
    """Return the options of the outermost qjit function being traced, or None."""
    return trace_state().options


def is_converting() -> bool:
    """Return whether autograph is to convert the Python functions that are being traced."""
    state = trace_state()
    return state.converts or (state.options is not None and state.options.autograph)


def disable_conversion(levels: int) -> None:
    """Add to the nesting depth of ``disable_autograph`` blocks in this thread.

    Autograph converts no code at depths above zero.

    Args:
        levels: number to add: 1 at the beginning of a block, and -1 at its end.
    """
    _state.change(disabled=trace_state().disabled + levels)


def offer_seed(draw: Callable[[], int]) -> None:
    """Offer a seed for the random numbers of the program that is being traced.

    Called for each quantum device with random outcomes. The program uses the first seed that is
    offered, unless the user passed ``qjit(seed=...)``; `trace_with_options` yields the seeds.

    Args:
        draw: returns the seed; called only if the seed may be used.
    """
    state = trace_state()
    if state.options is not None and state.options.seed is None and state.seeds is not None:
        state.seeds.append(draw())


@contextlib.contextmanager
def trace_with_options(options: "CompileOptions") -> Iterator[list[int]]:
    """Set the options of the qjit function that is traced in a ``with`` block.

    Yields:
        list of the seeds that devices offer while the block runs; the program uses the first seed.
    """
    seeds: list[int] = []
    with override_trace_state(options=options, seeds=seeds, print_options=np.get_printoptions()):
        yield seeds


@contextlib.contextmanager
def suspend_tracing() -> Iterator[None]:
    """Run code inside of a ``with`` block as if no program were being traced.

    JAX operations on concrete values are executed at once.
    """
    outside = {field.name: field.default for field in dataclasses.fields(TraceState)}
    with override_trace_state(**outside), jax.ensure_compile_time_eval():
        yield


def current_circuit() -> "CurrentCircuit | None":
    """Return the circuit whose quantum function is being traced, or None."""
    return trace_state().circuit


def current_gate_recorder() -> "GateRecorder | None":
    """Return the object that records loops and conditionals of the traced QNode.

    None outside of QNodes, where loops and conditionals are JAX's and contain no gates.
    """
    circuit = trace_state().circuit
    return None if circuit is None else circuit.get_control_flow_target()


def circuit_scope(circuit: "CurrentCircuit") -> contextlib.AbstractContextManager[None]:
    """Make ``circuit`` the current circuit inside of a ``with`` block."""
    return override_trace_state(circuit=circuit)
