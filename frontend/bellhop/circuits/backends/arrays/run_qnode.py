"""Trace calls of QNodes whose state is an array of the compiled program.

A circuit with mid-circuit measurements is executed once for each combination of outcomes, called a
*branch*; other circuits are executed once.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr

from bellhop.base.types import Operand
from bellhop.circuits.backends.arrays.averaging_pass import AveragingPass
from bellhop.circuits.backends.arrays.device_wires.device_wires import DeviceWires
from bellhop.circuits.backends.arrays.marginalized_outcomes import (
    MAX_OUTCOMES,
    count_outcomes,
    has_outcomes_in_while_loop,
    sum_over_outcomes,
)
from bellhop.circuits.backends.arrays.mixed_simulator import MixedSimulator
from bellhop.circuits.backends.arrays.noisy_measurements import measure_with_noise
from bellhop.circuits.backends.arrays.partitioned.partitioned_simulator import PartitionedSimulator
from bellhop.circuits.backends.arrays.pure_simulator import PureSimulator
from bellhop.circuits.backends.arrays.shots import BranchShots, draw_branches
from bellhop.circuits.backends.arrays.simulated_circuit import SimulatedCircuit
from bellhop.circuits.backends.arrays.simulator_base import Simulator
from bellhop.circuits.backends.arrays.value_differences import evaluate_with_differences
from bellhop.circuits.backends.choose.choose_outcomes import choose_outcomes
from bellhop.circuits.backends.choose.outcome_averages import find_outcome_averages
from bellhop.circuits.ir.broadcasting import Rows
from bellhop.circuits.ir.circuit import Circuit
from bellhop.circuits.ir.circuit_config import Shots
from bellhop.circuits.ir.device_measurements import Frequencies
from bellhop.circuits.ir.device_spec import DeviceSpec
from bellhop.circuits.ir.diff_method import DiffMethod
from bellhop.circuits.ir.execution_plan import ExecutionPlan
from bellhop.circuits.ir.executors import Outcomes
from bellhop.circuits.ir.postselection import mask_impossible
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.results import Results
from bellhop.circuits.ir.runtime_checks import FaultRecorder
from bellhop.circuits.ir.seeds import make_random_key, offer_device_seed
from bellhop.circuits.ir.vectorize.vectorize import vectorize_jaxpr
from bellhop.circuits.ir.wires import WireMap
from bellhop.circuits.passes.noise.noise_pass import NoisePass
from bellhop.compiler.compile_timing import add_note
from bellhop.control_flow.while_loop_vjp import make_loops_reversible
from bellhop.errors import CompileError
from bellhop.mesh.manual_axes import vary_like
from bellhop.tracing.state import trace_state

if TYPE_CHECKING:
    import pennylane as qml

# A shard has at least as many qubits as a fused matrix.
_MIN_LOCAL_QUBITS = PureSimulator.max_fused_qubits


def _choose_simulator(device: Any, n_qubits: int, call: Circuit) -> Any:
    """Return the simulator class for a circuit on a device.

    Args:
        device: the QNode's device.
        n_qubits: number of qubits of the circuit.
        call: the circuit. If its plan has ``Outcomes.ALL``, a density matrix averages over
            mid-circuit outcomes, on any device.

    Returns:
        `MixedSimulator` for ``default.mixed`` and for a density matrix; else the result of
        `choose_pure_simulator`. Both are called with ``(device, wires, where, dtype)``.
    """
    # The plan knows the treatment of outcomes before the trace only for a density matrix.
    if device.name == "default.mixed" or call.plan.outcomes is Outcomes.ALL:
        return MixedSimulator
    # Other devices simulate pure states. Here their circuits have derivatives to any order.
    return choose_pure_simulator(n_qubits, call.where)


def choose_pure_simulator(n_qubits: int, where: str) -> Any:
    """Return the class that simulates a state vector, partitioned over a mesh if possible.

    Args:
        n_qubits: number of qubits of the circuit.
        where: the QNode and its line, for errors.

    Returns:
        `PureSimulator`, or a partial of `PartitionedSimulator` if the surrounding
        `bellhop.accelerate` function partitions states over a mesh, and each shard is large enough.
        It is called with ``(device, wires, where, dtype)``.

    Raises:
        CompileError: if the state is to be partitioned, and the number of devices is not a power of
            two.
    """
    state = trace_state()
    over = state.state_axes
    if over is None or not state.partitions_states:
        return PureSimulator
    n_devices = math.prod(over.mesh.shape[axis] for axis in over.axes)
    if n_devices == 1 or n_qubits - math.log2(n_devices) < _MIN_LOCAL_QUBITS:
        return PureSimulator
    if n_devices & (n_devices - 1):
        axes = ", ".join(map(repr, over.axes))
        raise CompileError(
            f"{where}: the state of the circuit is partitioned over {n_devices} devices (mesh axes "
            f"{axes}), expected a power of two. Use {1 << (n_devices.bit_length() - 1)} devices on "
            "these axes; or, to keep a whole state on each device, name the axes in the sharding: "
            "accelerate(dev=jax.NamedSharding(mesh, jax.P(axis)))."
        )
    return functools.partial(PartitionedSimulator, devices=DeviceWires.from_state_axes(over))


def run_on_arrays(call: Circuit, device: qml.devices.Device, wires: WireMap) -> Any:
    """Trace a QNode call: simulate its circuit by JAX operations on the state's array.

    A circuit with mid-circuit measurements is executed for all combinations of outcomes (branches).
    Without shots, results are sums over all branches, weighted by probability, which JAX
    differentiates. With shots, each shot is assigned to one branch, and the branch draws its
    samples. With ``diff_method="finite-diff"`` or ``"spsa"``, the derivative is by differences in
    the inputs.

    Args:
        call: the quantum function with its inputs and settings.
        device: the QNode's device.
        wires: maps wire labels to qubits.

    Returns:
        traced values of the measurements, in the structure that the quantum function returned.

    Raises:
        CompileError: if the state does not fit into memory, or the circuit has too many outcomes.
    """
    method, options = call.config.diff_method, call.config.read_diff_options()
    if not DiffMethod.has_differences(method):
        return _run_on_simulator(call, device, wires)
    function = lambda *inputs: _run_on_simulator(replace(call, inputs=inputs), device, wires)
    return evaluate_with_differences(function, call.inputs, method, options, call.where)


class DrawnShots(NamedTuple):
    """The random assignment of a circuit's shots to branches (mid-circuit outcomes).

    The program first executes all branches for their probabilities, then draws this assignment, and
    executes the branches again with the assignment as an input.

    Attributes:
        shot_branches: ``u32[shots]``, the branch (outcomes as bits) of each shot; the number of
            branches for a shot that is not accepted.
        total: scalar, the sum of the probabilities of all branches.
        n_accepted: ``[groups]``, the number of shots of each group that are assigned to a branch.
        key: PRNG key for the samples.
    """

    shot_branches: Any
    total: Any
    n_accepted: Any
    key: Any

    @classmethod
    def make_empty(cls, shots: Shots) -> DrawnShots:
        """Return a placeholder: all shots in branch 0, total probability 1, and a zero key."""
        no_key = jax.random.wrap_key_data(jnp.zeros(2, jnp.uint32), impl="threefry2x32")
        n_accepted = jnp.asarray(1.0 * np.array(shots.shot_vector))
        return cls(jnp.zeros(shots.total, jnp.uint32), jnp.ones(()), n_accepted, no_key)


class _TracedCircuit(NamedTuple):
    """The jaxpr of one execution of a circuit, and properties found while it was traced.

    Attributes:
        closed: jaxpr from ``(outcomes, *DrawnShots, row, *inputs)`` to ``(probability, fault,
            *values)`` of one branch. ``outcomes`` has a bit for each mid-circuit outcome of the
            branch.
        results: computes the QNode's result from the values, combined over all branches.
        plan: the plan of the call, with its treatment of outcomes and its precision.
        postselects: whether a measurement postselects.
        unbounded_outcomes: the error to raise if mid-circuit outcomes remain in a loop with a
            dynamic trip count; None if there are none.
    """

    closed: ClosedJaxpr
    results: Results
    plan: ExecutionPlan
    postselects: bool
    unbounded_outcomes: CompileError | None


def _trace_circuit(
    call: Circuit,
    simulator: Simulator,
    rows: Rows,
    faults: FaultRecorder,
    nothing_drawn: DrawnShots,
) -> _TracedCircuit:
    """Trace one execution of a circuit to a jaxpr, with outcomes and shots as inputs.

    Args:
        call: the quantum function with its inputs and settings.
        simulator: implements operations on the state; its ``uses_loops`` is set if it is mixed.
        rows: the batch axis of the circuit; tracing finds its size.
        faults: computes run-time errors of operations, such as invalid traced wires.
        nothing_drawn: drawn shots, for their shapes and dtypes only.
    """
    config, shots = call.config, call.shots
    plan = replace(call.plan, precision=8 * simulator.dtype.itemsize)
    size = DeviceSpec.describe_size(simulator.name, len(simulator.wires))
    box = config.name, size, str(plan)
    facts: tuple[Any, ...] = ()
    averages = None
    if isinstance(simulator, MixedSimulator):
        # This traces the quantum function, whose products need the same precision as below.
        with jax.default_matmul_precision("highest"):
            averages = find_outcome_averages(call, simulator.wires)
        simulator.uses_loops = averages is not None

    def run(outcomes: Any, drawn: DrawnShots, row: Operand, *inputs: Operand) -> Any:
        """Execute one branch of the circuit; `_trace_circuit` traces this function.

        It stores facts found while tracing in `facts` of the enclosing function.

        Args:
            outcomes: unsigned integer, a bit for each mid-circuit outcome of the branch.
            drawn: the assignment of shots to branches.
            row: traced index of the batch row.
            *inputs: the quantum function's arguments that are arrays.

        Returns:
            the branch's probability, its fault (for run-time errors), and the arrays of its
            results.
        """
        nonlocal facts
        is_here = drawn.shot_branches == outcomes
        branch_shots = BranchShots(
            drawn.key, is_here, drawn.total, shots.shot_vector, drawn.n_accepted
        )
        on_branch = branch_shots if shots.total else None
        circuit = SimulatedCircuit(simulator, rows.get_row(row), faults, outcomes, on_branch, box)
        noise = NoisePass.from_config(circuit, config, outcomes)
        averaging = None if averages is None else AveragingPass(circuit, unrolls=averages.unrolls)
        leaves, out_tree = call.function.apply_to_circuit(
            circuit, simulator.prepare_inputs(inputs), averaging or (noise and noise.first)
        )
        if averaging is not None:
            averaging.flush()
        circuit.treatment = choose_outcomes(config, circuit, leaves)
        is_single = circuit.treatment is Outcomes.ONE_RUN
        options: dict[str, Any] = {"diff_method": config.diff_method, "is_single": is_single}
        statistics = (
            circuit.measure_statistics(leaves, **options)
            if noise is None
            else measure_with_noise(circuit, noise, leaves, **options)
        )
        results = Results(statistics, out_tree, shots, circuit.precision, call.where)
        treatment = circuit.treatment if averages is None else Outcomes.ALL
        traced_plan = replace(plan, outcomes=treatment)
        facts = results, traced_plan, circuit.postselects, circuit.unbounded_outcomes
        values = results.take_values()
        if _has_single_amplitudes(call) and not results.precision.is_single:
            # As in the engine, amplitudes have single precision, and sums over branches double.
            values = [_cast_dtype(value, np.float32, Precision.real_type()) for value in values]
        return [circuit.compute_probability(), circuit.fault, *values]

    # By default TPUs and some GPUs multiply with fewer bits, also in functions from PennyLane.
    with jax.default_matmul_precision("highest"):
        closed = jax.make_jaxpr(call.name_in_errors(run))(
            jax.ShapeDtypeStruct((), jnp.uint32), nothing_drawn, Rows.STRUCT, *call.inputs
        )
    return _TracedCircuit(closed, *facts)


def _run_on_simulator(call: Circuit, device: qml.devices.Device, wires: WireMap) -> Any:
    """Trace a circuit, evaluate it for all rows and branches, and return its results.

    A row is an element of batched gate parameters, a branch one combination of mid-circuit
    outcomes. The circuit is traced a second time if its parameters turn out to be in single
    precision.

    Returns:
        the values of the measurements, in the structure that the quantum function returned.
    """
    config, inputs, where, shots = call.config, call.inputs, call.where, call.shots
    kind = _choose_simulator(device, len(wires), call)
    simulator_of = functools.partial(kind, device, wires, where)
    asked = config.precision
    is_single = _has_single_amplitudes(call)
    simulator = simulator_of(np.dtype(np.float32) if is_single else Precision.real_type())
    simulator.check_memory()
    rows, all_faults = Rows(where), FaultRecorder(wires, where)
    nothing_drawn = DrawnShots.make_empty(shots)
    traced = _trace_circuit(call, simulator, rows, all_faults, nothing_drawn)
    if traced.results.precision.is_single and asked is None and Precision.is_double():
        # The parameters' dtypes are known after the first trace: trace again in single precision.
        simulator = simulator_of(np.dtype(np.float32))
        traced = _trace_circuit(call, simulator, rows, all_faults, nothing_drawn)
    closed, results, plan, postselects, uncounted = traced
    treatment = plan.outcomes
    add_note(f"{config.name} ({config.site}) is {plan}")
    closed = make_loops_reversible(vectorize_jaxpr(closed), where)
    if simulator.is_mixed and treatment.is_mid_circuit and treatment is not Outcomes.ONE_RUN:
        closed = sum_over_outcomes(closed)
    if uncounted is not None and has_outcomes_in_while_loop(closed.jaxpr):
        raise uncounted
    n_outcomes = count_outcomes(closed.jaxpr)
    _check_outcome_count(n_outcomes, simulator)
    is_random = shots.total or treatment is Outcomes.ONE_RUN
    has_branches = n_outcomes > 0 or postselects or is_random
    if is_random:
        offer_device_seed(device)

    def check_draws(total: Operand, values: Any) -> Any:
        """Return random values, or raise an error at run time if `total` is NaN.

        Args:
            total: scalar, the sum of the probabilities from which outcomes are drawn.
            values: pytree of arrays; returned unchanged for circuits without random numbers.
        """
        total = jax.lax.stop_gradient(total)
        if not is_random:
            return values
        return FaultRecorder.check_draw(values, total, where)

    def run_row(row: Operand) -> Any:
        """Evaluate all branches of one row of the batch; return the QNode's result for it.

        `row` is the traced index; 0 if the circuit has no batch.
        """
        key = make_random_key(row, *inputs) if is_random else nothing_drawn.key
        at_first = nothing_drawn._replace(key=key)

        def evaluate(outcomes: Any, drawn: DrawnShots) -> list[Any]:
            """Evaluate one branch: its probability, its fault and the arrays of its results."""
            operands = [outcomes, *drawn, row, *inputs]
            return list(eval_jaxpr(closed.jaxpr, closed.consts, *operands))

        def sum_branches(drawn: DrawnShots) -> Any:
            """Evaluate all branches (combinations of mid-circuit outcomes) in a scan.

            Args:
                drawn: the assignment of shots to branches. The first call is before shots are
                    drawn, with a placeholder: it computes the branches' probabilities and, without
                    shots, the values. With shots, a second call with the drawn assignment computes
                    the values.

            Returns:
                the probability of each branch, an array ``[branches]``; the fault of each branch;
                and a list of the values' sums over all branches.
            """
            branches = jnp.arange(2**n_outcomes, dtype=jnp.uint32)

            def add(sums: list[Any], outcomes: Any) -> Any:
                """Add the values of one branch; return its probability and fault to stack."""
                weight, fault, *values = evaluate(outcomes, drawn)
                return list(map(_add, sums, values)), (weight, fault)

            # Accumulate in the loop: stacked values, such as density matrices, may be large.
            zeros = [jnp.zeros(aval.shape, aval.dtype) for aval in closed.out_avals[2:]]
            zeros = vary_like((inputs, closed.consts), zeros)
            sums, (weights, faults) = jax.lax.scan(add, zeros, branches)
            return weights, faults, sums

        if not (treatment.is_mid_circuit and has_branches):
            weight, faults, *values = evaluate(jnp.uint32(0), at_first)
            values = check_draws(weight, values)
            return results.finish(all_faults.raise_faults(values, faults, None))
        weights, faults, values = sum_branches(at_first)
        sum_of_weights = jnp.sum(weights)
        # Postselected results are divided by the remaining probability. Without postselection they
        # are not: the probabilities of a user's unnormalized state need not sum to one.
        total = mask_impossible(sum_of_weights) if postselects else jnp.ones(())
        is_accepted: Any = None
        drops = postselects and config.drops_shots
        if treatment is Outcomes.ONE_RUN:
            branch, is_accepted = draw_branches(key, weights, 1, drops=drops)
            branch, is_accepted = branch[0], is_accepted[0]
            drawn = at_first._replace(shot_branches=jnp.full(shots.total, branch))
            total, _, *values = evaluate(branch, drawn)
        elif shots.total:
            branches, is_accepted = draw_branches(key, weights, shots.total, drops=drops)
            none = jnp.zeros(len(shots.shot_vector))
            n_accepted = none.at[Frequencies.index_groups(shots.shot_vector)].add(is_accepted)
            _, _, values = sum_branches(DrawnShots(branches, sum_of_weights, n_accepted, key))
        return results.finish(
            all_faults.raise_faults(check_draws(sum_of_weights, values), faults, weights),
            total=None if shots.total else total,
            is_accepted=is_accepted if postselects else None,
        )

    return rows.map_rows(
        run_row, lambda all_: results.finish_rows(all_, differ=treatment.is_mid_circuit)
    )


def _add(one: Any, other: Any) -> Any:
    """Add two arrays; combine booleans with ``or``."""
    return one | other if one.dtype == bool else one + other


def _has_single_amplitudes(call: Circuit) -> bool:
    """Return whether the settings of a circuit request a state in single precision.

    True if the QNode's setting ``precision`` is ``"single"``; also on a single-precision device, if
    a density matrix averages over mid-circuit outcomes (``Outcomes.ALL`` in the plan). All other
    circuits here ignore their device's precision.
    """
    plan = call.plan
    is_for_engine = plan.outcomes is Outcomes.ALL
    return call.config.precision == "single" or (is_for_engine and plan.precision == 32)


def _cast_dtype(value: Operand, before: Any, after: Any) -> Any:
    """Convert an array from one dtype to another; return other arrays unchanged."""
    return value.astype(after) if value.dtype == before else value


def _check_outcome_count(n_outcomes: int, simulator: Simulator) -> None:
    """Raise a `CompileError` if a circuit has too many mid-circuit outcomes.

    All combinations of outcomes are evaluated, so their number doubles with each outcome.

    Args:
        n_outcomes: number of outcomes, at most `MAX_OUTCOMES`. Outcomes over which a mixed state
            was summed before the end of the circuit do not count.
        simulator: names the QNode and the device in the error.
    """
    if n_outcomes > MAX_OUTCOMES:
        # A density matrix sums over an outcome that the rest of the circuit does not use.
        remedy = (
            "Apply the gates that depend on an outcome before the next measurement, or, in a "
            "circuit without channels, use qml.device('lightning.qubit', wires=...)."
            if simulator.is_mixed
            else "Use qml.device('lightning.qubit', wires=...)."
        )
        raise CompileError(
            f"{simulator.where}: bellhop evaluates all combinations of mid-circuit outcomes on "
            f"{simulator.name}, expected at most {MAX_OUTCOMES} outcomes in use at the same time, "
            f"got {n_outcomes}. {remedy}"
        )
