"""The state of tracing a user's function: one for everything that traces."""

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

# What JAX raises where Python needs the value of a tracer.
ASKS_FOR_VALUE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
# Or keeps a tracer beyond its trace.
NOT_TRACEABLE = (*ASKS_FOR_VALUE, jax.errors.UnexpectedTracerError)


@dataclass(frozen=True)
class TraceState:
    """What holds for all that is traced here: in this thread, inside of these ``with`` blocks.

    Attributes:
        is_tracing: whether a program of ours is traced.
        options: those of the qjit function that is traced, the outermost; None outside of one.
        seeds: takes the seeds that devices offer to that program.
        converts: whether autograph converts what is called, although no option says so.
        modules: names of modules that autograph converts too.
        disabled: in how many ``disable_autograph`` this is.
        unrolls: whether loops of known length are Python's.
        in_region: whether it is part of a region, which runs on a device of its own.
        platform: that of this device, such as "tpu".
        state_axes: the axes of a mesh over which that partitions the states of circuits.
        circuit: the circuit that gates belong to.
        mitigation: how QNodes that are called are mitigated.
        folding: how much more noise their circuits have.
        obstacle: why gates have no derivative, where they have none.
        print_options: NumPy's print options where the trace of a qjit function began.
        transposing: who asks for the reverse mode of loops of computed length, for errors.
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
        """Whether states of circuits are partitioned over devices."""
        # Inside of jax.shard_map each device has circuits of its own.
        is_inside = AxisType.Manual in jax.sharding.get_abstract_mesh().axis_types
        return self.state_axes is not None and not is_inside


_state = ScopedState("bellhop_trace_state", TraceState())
trace_state = _state.now
override_trace_state = _state.override


def is_tracing() -> bool:
    """Tell whether a program of ours is traced."""
    return trace_state().is_tracing


def current_options() -> "CompileOptions | None":
    """Return the options of the qjit function that is being traced, the outermost, or None."""
    return trace_state().options


def is_converting() -> bool:
    """Tell whether autograph converts the functions that are traced."""
    state = trace_state()
    return state.converts or (state.options is not None and state.options.autograph)


def disable_conversion(levels: int) -> None:
    """Enter so many more ``disable_autograph``, or leave, where negative."""
    _state.change(disabled=trace_state().disabled + levels)


def offer_seed(draw: Callable[[], int]) -> None:
    """Offer a seed for the program that is traced, which takes one where it has none."""
    state = trace_state()
    if state.options is not None and state.options.seed is None and state.seeds is not None:
        state.seeds.append(draw())


@contextlib.contextmanager
def trace_with_options(options: "CompileOptions") -> Iterator[list[int]]:
    """Trace what runs inside with these options; yield the seeds that it offers."""
    seeds: list[int] = []
    with override_trace_state(options=options, seeds=seeds, print_options=np.get_printoptions()):
        yield seeds


@contextlib.contextmanager
def suspend_tracing() -> Iterator[None]:
    """Run what is inside as Python does when no program is being traced."""
    outside = {field.name: field.default for field in dataclasses.fields(TraceState)}
    with override_trace_state(**outside), jax.ensure_compile_time_eval():
        yield


def current_circuit() -> "CurrentCircuit | None":
    """Return the circuit whose quantum function is being traced, or None."""
    return trace_state().circuit


def current_gate_recorder() -> "GateRecorder | None":
    """Return the object that records control flow with gates, or None outside of circuits."""
    circuit = trace_state().circuit
    return None if circuit is None else circuit.get_control_flow_target()


def circuit_scope(circuit: "CurrentCircuit") -> contextlib.AbstractContextManager[None]:
    """Make ``circuit`` the one that gates belong to."""
    return override_trace_state(circuit=circuit)
