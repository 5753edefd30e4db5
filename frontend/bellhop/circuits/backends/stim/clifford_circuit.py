"""``CliffordCircuit``: translates a quantum function to a Stim program.

For ::

    qml.H(0)
    m = bellhop.measure(0)                       H 0
    bellhop.cond(m, lambda: qml.X(1))()          M 0
    qml.BitFlip(p, 1)                            CX rec[-1] 1
    return qml.sample(m), qml.counts(wires=1)    X_ERROR($0) 1
                                                 M 1

the text on the right is generated, with the placeholder ``$0`` of an operand in place of ``p``.
Outcomes are read from the measurement record of one shot, which is an input of the trace.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.circuits.backends.stim.sampler import read_bits, sample_program
from bellhop.circuits.backends.stim.stim_gates import (
    MAX_MATRIX_WIRES,
    Instructions,
    find_channel,
    find_instructions,
    find_pauli_product,
    find_preparation,
)
from bellhop.circuits.gates.decompositions import get_pennylane_decomposition
from bellhop.circuits.gates.operation_kind import OperationKind
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.device_measurements import Frequencies, SampleRequest, ShadowSnapshots
from bellhop.circuits.ir.runtime_checks import FaultRecorder
from bellhop.circuits.ir.tangents import forbid_derivative
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.passes.program_circuit import ProgramCircuit
from bellhop.control_flow.trace_body import run_chosen_branch
from bellhop.errors import CompileError
from bellhop.jaxprs.constant_eval import evaluate_constant, evaluate_static, find_deciding_inputs
from bellhop.tracing.current_circuit import Branches

_WITHOUT_EFFECT = (OperationKind.IGNORED, OperationKind.GLOBAL_PHASE, OperationKind.SNAPSHOT)

# A conditional is evaluated for all combinations of up to this many outcomes.
_MAX_OUTCOMES = 8


class CliffordCircuit(ProgramCircuit):
    """A circuit on ``default.clifford`` whose gates become lines of a Stim program.

    It is traced for one shot, whose mid-circuit outcomes are an input of the trace; `sample`
    samples all shots.

    Args:
        wires: maps wire labels to qubit indices.
        where: the QNode's name and line, which begin error messages.
        rows: the batch row whose gate parameters are used, by a traced index (broadcasting).
        faults: records invalid traced wires when the program runs.
        record: uint8 ``[bytes]``, traced: the mid-circuit outcomes of one shot, eight per byte.
        shots: the number of shots of each entry of the shot vector.
        key: ``jax.random`` key for the samples.
        repeats: whether loops may become ``REPEAT`` blocks; otherwise, they are unrolled.

    Attributes:
        packed_outcomes: uint8 ``[shots, bytes]``, the outcomes of all shots, eight per byte; None
            before sampling.
        has_repeats: whether the program has a ``REPEAT`` block.
        is_at_end: whether the quantum function is complete, so that further gates only rotate to
            the basis of a measurement.
        needs_tapes: whether a final measurement is not supported by Stim's sampler, so that
            PennyLane's device must execute tapes.
    """

    def __init__(
        self,
        wires: WireMap,
        where: str,
        rows: TracedRow,
        faults: FaultRecorder,
        *,
        record: Any,
        shots: tuple[int, ...],
        key: Any,
        repeats: bool,
    ) -> None:
        super().__init__(wires, where, rows, faults)
        self.groups = shots
        self.packed_outcomes: Any = None
        self.has_repeats = False
        self._record = record
        self._key = key
        self._use_repeat = repeats
        # Lines of the program; a traced conditional is a list `[operand, branches]`.
        self._steps: list[Any] = []
        self._operands: list[Any] = []
        self._outcomes: list[tuple[Any, int]] = []
        # Index of the next outcome in the record; traced in a `REPEAT` block.
        self._position: Any = 0
        # The error for an operand, in a part of the circuit that must not have operands.
        self._obstacle: CompileError | None = None
        # Whether the current part is in a `REPEAT` block, and whether its iterations differ.
        self._is_repeated = self._has_varying_iterations = False
        self.is_at_end = False
        self.needs_tapes = False
        self._is_fresh = True
        self._n_rounds = 0

    def _apply_gate(self, op: Any, depth: int) -> None:
        """Append an operation as lines of the Stim program, decomposed if necessary.

        Args:
            depth: the number of decompositions that produced it, 0 for the user's operation.

        Raises:
            CompileError: for a gate's traced parameter, or a gate that is not Clifford. For a gate
                that is not Clifford at the end of the circuit, before a measurement,
                ``needs_tapes`` is set instead: PennyLane's device runs the circuit.
        """
        is_fresh, self._is_fresh = self._is_fresh, False
        kind = OperationKind.classify(op)
        if kind in _WITHOUT_EFFECT:
            self._is_fresh = is_fresh
        elif (channel := find_channel(op)) is not None:
            name, paulis = channel
            self._add_instruction(name, op.wires, op.data[-1], paulis)
        elif any(map(is_dynamic, op.data)):
            raise CompileError(
                f"{self.where}: {op.name} has a traced parameter, expected a static parameter, as "
                "default.clifford must know the Clifford gate at compile time. Make the parameter "
                "static: qjit(static_argnums=...); or choose between gates by bellhop.cond."
            )
        elif is_fresh and kind is OperationKind.STATE_PREPARATION:
            self._add_instructions(op, find_preparation(op))
        elif op.has_matrix and len(op.wires) <= MAX_MATRIX_WIRES:
            self._add_instructions(op, find_instructions(op))
        elif (parts := get_pennylane_decomposition(op, depth)) is not None:
            for part in parts:
                self._apply(part, depth + 1)
        else:
            self._add_instructions(op, None)

    def _add_instructions(self, op: Any, instructions: Instructions | None) -> None:
        """Append the Stim instructions of an operation.

        Args:
            op: the operation, whose wires the instructions refer to.
            instructions: the instructions; None if the operation is not Clifford, which raises
                ``CompileError``, or at the end of the circuit sets ``needs_tapes``.
        """
        if instructions is None and self.is_at_end:
            self.needs_tapes = True
            return
        if instructions is None:
            if OperationKind.classify(op) is OperationKind.CHANNEL:
                raise CompileError(
                    f"{self.where}: the channel {op.name} does not apply random Paulis, which "
                    "default.clifford needs. Use qml.device('default.mixed', wires=...)."
                )
            raise CompileError(
                f"{self.where}: {op.name}{list(op.data) or ''} is not a Clifford gate, which "
                "default.clifford needs. Use qml.device('lightning.qubit', wires=...)."
            )
        for name, targets in instructions:
            self._add_instruction(name, [op.wires[target] for target in targets])

    def _add_instruction(
        self, name: str, labels: Sequence[Any], value: Any = None, paulis: str = ""
    ) -> None:
        """Append one line to the Stim program, such as ``X_ERROR(0.1) 1``.

        Args:
            name: the name of the instruction.
            labels: the wire labels of its targets, static or traced.
            value: the argument in parentheses, a number or a tracer; None for no argument.
            paulis: a letter before each target, such as "XZ"; empty for none.
        """
        argument = "" if value is None else f"({self._format_number(value)})"
        wires = map(self._format_wire, labels)
        targets = (p + wire for p, wire in itertools.zip_longest(paulis, wires, fillvalue=""))
        self._steps.append(f"{name}{argument} {' '.join(targets)}")

    def _format_wire(self, label: Any) -> str:
        """Return a wire as text: its qubit index; if it is traced, a placeholder ``$i``.

        The traced index, clipped to the valid range, becomes operand ``i`` of the program. An
        invalid index is reported separately, so any valid index will do.
        """
        qubit = self.wires.find_static_qubit(label)
        if qubit is not None:
            return str(qubit)
        return self._format_operand(jnp.clip(self.wires.get_qubit(label), 0, len(self.wires) - 1))

    def _format_number(self, value: Any) -> str:
        """Return a number as text; if it is traced, a placeholder ``$i`` for an operand."""
        return self._format_operand(value) if is_dynamic(value) else repr(float(value))

    def _format_operand(self, value: Any) -> str:
        """Add a traced number to the program's operands; return its placeholder ``$i``.

        A ``REPEAT`` block must not have operands. While the lines of such a block are collected,
        nothing is added and "$" is returned; later the block is discarded and the loop unrolled.

        Args:
            value: tracer of a wire's index or of a probability.

        Raises:
            CompileError: in a branch of a conditional, which must not have operands either.
        """
        if self._is_repeated:
            self._has_varying_iterations = True
            return "$"
        if self._obstacle is not None:
            raise self._obstacle
        # Without this error, the derivative of the integer samples would silently be zero.
        self._operands.append(
            forbid_derivative(
                jnp.asarray(value),
                f"{self.where}: the circuit is differentiated with respect to the probability of "
                "an error channel, and Stim's samples have no such derivative. Use "
                "qml.device('default.mixed', wires=...).",
            )
        )
        return f"${len(self._operands) - 1}"

    def _measure_wire(self, label: Any, *, reset: bool, postselect: int) -> Any:
        """Append a measurement; return the outcome, a bool scalar, from the shot's record.

        Args:
            label: the wire label.
            reset: whether the wire is reset to zero after the measurement.
            postselect: -1. An outcome to postselect raises ``CompileError``: Stim cannot
                postselect.
        """
        if postselect >= 0:
            raise CompileError(
                f"{self.where}: postselection is not supported by Stim. Remove postselect, return "
                "qml.sample of the observable and of the outcome, and keep the shots with the "
                "wanted outcome."
            )
        self._add_instruction("MR" if reset else "M", [label])
        outcome = read_bits(self._record, self._position) == 1
        self._outcomes.append((outcome, self.n_outcomes))
        self.n_outcomes += 1
        self._position = self._position + 1
        self._is_fresh = False
        return outcome

    def broadcast_to_shots(self, value: Any) -> Any:
        """Return a value of the traced shot with a leading axis of shots, of length one."""
        return value[None]

    def average_over_groups(self, value: Any) -> Any:
        """Return a value of the traced shot with a leading axis of shot groups, of length one.

        The mean over each group is computed later, from the values of all shots.
        """
        return value[None]

    @contextmanager
    def _collect_steps(self, obstacle: CompileError | None = None) -> Iterator[list[Any]]:
        """Collect the Stim lines of the ``with`` block in a new list, which is yielded.

        In the ``with`` block, outcomes of earlier measurements count as any other traced values:
        they cannot control Paulis.

        Args:
            obstacle: the error to raise if a line needs a traced operand; None to allow operands.
        """
        outer = self._steps, self._obstacle, self._outcomes
        self._steps, self._obstacle, self._outcomes = [], self._obstacle or obstacle, []
        try:
            yield self._steps
        finally:
            self._steps, self._obstacle, self._outcomes = outer
            self._is_fresh = False

    def for_loop(
        self,
        n_iterations: Any,
        body: Callable[..., Any],
        carried: tuple[Any, ...],
        *,
        can_unroll: bool = False,
    ) -> tuple[Any, ...]:
        """Add a loop as a ``REPEAT`` block, or unrolled; return the final carried values.

        It is unrolled if iterations differ or have traced operands, without `repeats`, and for
        fewer than two iterations.

        Args:
            n_iterations: the trip count, which must be an ``int``.
            body: ``(carried, index) -> carried``, which applies the gates of one iteration.
            carried: the carried values of the first iteration, a tuple of arrays.
            can_unroll: not used.

        Raises:
            CompileError: for a dynamic trip count.
        """
        if not isinstance(n_iterations, int):
            raise self._unsupported_error("a for_loop with traced bounds")
        if self._use_repeat and n_iterations > 1:
            repeated = self._add_repeat(n_iterations, body, carried)
            if repeated is not None:
                return repeated
        return self.unroll_iterations(n_iterations, body, carried)

    def _add_repeat(
        self, n: int, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...] | None:
        """Try to add a loop as a ``REPEAT`` block of the Stim program.

        Args:
            n: the trip count.
            body: ``(carried, index) -> carried``, which applies the gates of one iteration.
            carried: the carried values of the first iteration.

        Returns:
            the carried values after the loop; None if its iterations differ and nothing was added.
        """
        position, outcomes, fault_before = self._position, self.n_outcomes, self.fault
        outer = self._is_repeated, self._has_varying_iterations
        self._is_repeated, self._has_varying_iterations = True, False
        traced: tuple[list[Any], int] = [], 0

        def iteration(state: tuple[Any, ...], number: Any) -> tuple[Any, ...]:
            """Trace one iteration of the loop, and store its Stim lines in ``traced``.

            The number of outcomes per iteration is only known after tracing. If it differs from
            the number that was assumed, the iteration is traced again with the right number.

            Args:
                state: the circuit's fault (its first invalid wire), then the loop's carried values.
                number: the index of the iteration.

            Returns:
                the same values for the next iteration.
            """
            nonlocal traced
            fault, *carried = state
            with self._collect_steps() as steps:
                # The number of outcomes per iteration is known after the first trace.
                self._position = position + number * traced[1]
                after = self._run_on_gate_state(fault, body, tuple(carried), number)
            is_known = traced[1] == self._n_part_outcomes
            traced = steps, self._n_part_outcomes
            return after if is_known else iteration(state, number)

        fault, *rest = self._run_iterations(n, iteration, (fault_before, *carried))
        differs = self._has_varying_iterations
        self._is_repeated, self._has_varying_iterations = outer
        if differs:
            self._position, self.n_outcomes, self.fault = position, outcomes, fault_before
            return None
        steps, per_iteration = traced
        self.fault = fault
        self._position = position + n * per_iteration
        self.n_outcomes = outcomes + n * per_iteration
        if steps:
            self.has_repeats = True
            self._steps += [f"REPEAT {n} {{", *steps, "}"]
        return tuple(rest)

    def while_loop(self, condition: Any, body: Any, carried: Any) -> Any:
        """Raise an error: Stim has no loops with a dynamic trip count."""
        raise self._unsupported_error("a while_loop")

    def _unsupported_error(self, construct: str) -> CompileError:
        """Return the error for a loop, such as "a while_loop", of dynamic trip count."""
        return CompileError(
            f"{self.where}: the circuit has {construct}, expected a static trip count, as Stim "
            "programs have a fixed length. Use a for_loop with Python integers as bounds, or "
            "qml.device('lightning.qubit', wires=...)."
        )

    def branch(self, branches: Branches) -> Any:
        """Add a conditional: controlled Paulis, or branches selected by a traced index.

        An index that depends on outcomes and nothing else gives Paulis controlled by outcomes. An
        index that depends on other traced values selects the lines of a branch when the program
        runs. With a constant index, only its branch is applied. The branches' functions apply their
        gates to this circuit; the result of the selected branch is returned.

        Raises:
            CompileError: for a traced operand in a branch, and if controlled Paulis cannot express
                the branches.
        """
        last = len(branches.functions) - 1
        number = evaluate_constant(branches.index)
        if number is not None:
            return branches.functions[min(max(int(number), 0), last)]()
        parts: list[tuple[list[Any], int]] = []
        before, place = self.fault, self._position
        obstacle = CompileError(
            f"{self.where}: a branch of a conditional has a traced wire, a traced probability or a "
            "traced condition, which Stim does not support. Use one conditional without traced "
            "values in the branches, or qml.device('lightning.qubit', wires=...)."
        )

        def make_branch(function: Callable[[], Any]) -> Callable[[], Any]:
            """Return a function that runs a branch, and returns the circuit's fault and the result.

            The fault is the circuit's first invalid traced wire.
            """

            def run() -> Any:
                """Run the branch; append its lines and its number of outcomes to ``parts``."""
                self._position = place
                with self._collect_steps(obstacle) as steps:
                    results = self._run_on_gate_state(before, lambda: (function(),))
                parts.append((steps, self._n_part_outcomes))
                return results

            return run

        self.fault, result = run_chosen_branch(branches.map_functions(make_branch))
        self._position = place
        if any(steps for steps, _ in parts) and not self._has_varying_iterations:
            self._add_branches(branches.index, parts)
        return result

    def _add_branches(self, index: Any, parts: Sequence[tuple[list[Any], int]]) -> None:
        """Add a conditional to the Stim program: controlled Paulis, or all branches.

        If mid-circuit outcomes decide, it becomes controlled Paulis. Otherwise all branches are
        added, and one of them is chosen when the program runs; branches with fewer outcomes are
        padded with zeros to the largest number.

        Args:
            index: traced index of the branch to run.
            parts: for each branch, its Stim lines and its number of mid-circuit outcomes.
        """
        used = find_deciding_inputs(index, [outcome for outcome, _ in self._outcomes])
        if used:
            self._add_controlled_paulis(index, [self._outcomes[number] for number in used], parts)
            return
        most = max(count for _, count in parts)
        padded = [[*steps, *["MPAD 0"] * (most - count)] for steps, count in parts]
        self._steps.append([self._format_operand(jnp.asarray(index)), padded])
        self._position = self._position + most
        self.n_outcomes += most

    def _add_controlled_paulis(
        self,
        index: Any,
        outcomes: Sequence[tuple[Any, int]],
        parts: Sequence[tuple[list[Any], int]],
    ) -> None:
        """Add a conditional on outcomes as Paulis, each controlled by one outcome.

        For instance ``cond(m, X(1))`` becomes ``CX rec[-1] 1``.

        Args:
            index: traced index of the branch to run.
            outcomes: the outcomes that decide the branch, with their indices in the record.
            parts: for each branch, its Stim lines and its number of mid-circuit outcomes.

        Raises:
            CompileError: if the branches are not Paulis that depend linearly on the outcomes, or
                the index depends on more than `_MAX_OUTCOMES` outcomes.
        """
        every = list(itertools.product((0, 1), repeat=len(outcomes)))
        if len(outcomes) > _MAX_OUTCOMES:
            raise self._nonlinear_error(
                f"depends on {len(outcomes)} outcomes, expected at most {_MAX_OUTCOMES}",
                "Write a conditional for each outcome",
            )
        numbers = evaluate_static(index, [outcome for outcome, _ in outcomes], every)
        assert numbers is not None
        paulis = []
        for steps, _ in parts:
            is_text = all(isinstance(step, str) for step in steps)
            product = find_pauli_product("\n".join(steps)) if is_text else None
            if product is None:
                raise self._nonlinear_error(
                    "applies operations other than Paulis", "Apply only Paulis in the branches"
                )
            paulis.append(product)
        product_of = dict(zip(every, (paulis[int(number)] for number in numbers), strict=True))
        always = product_of[every[0]]
        units = np.eye(len(outcomes), dtype=int).tolist()
        by_outcome = [product_of[tuple(unit)] ^ always for unit in units]
        for values, product in product_of.items():
            for factor in itertools.compress(by_outcome, values):
                product = product ^ factor
            if product != always:
                raise self._nonlinear_error(
                    "applies Paulis that are not a product with a factor for each outcome",
                    "Write a conditional for each outcome",
                )
        self._steps += [f"{pauli} {qubit}" for qubit, pauli in sorted(always)]
        for (_, number), product in zip(outcomes, by_outcome, strict=True):
            back = self.n_outcomes - number
            self._steps += [f"C{pauli} rec[-{back}] {qubit}" for qubit, pauli in sorted(product)]

    def _nonlinear_error(self, problem: str, remedy: str) -> CompileError:
        """Return the error for a conditional that controlled Paulis cannot express.

        Args:
            problem: the predicate of a sentence whose subject is the conditional.
            remedy: the start of the sentence with the remedy.
        """
        return CompileError(
            f"{self.where}: a conditional on mid-circuit outcomes {problem}, and Stim only has "
            f"Paulis controlled by one outcome. {remedy}, or use qml.device('lightning.qubit', "
            "wires=...)."
        )

    def sample(self, requests: Sequence[SampleRequest]) -> list[Any]:
        """Sample all shots once, and compute each requested result from these samples.

        The first call stores the samples' mid-circuit and final outcomes in ``packed_outcomes``.

        Args:
            requests: descriptions of the results, ``Frequencies`` or ``Samples``.

        Returns:
            an array for each request: ``[groups, outcomes]`` for ``Frequencies``, ``[shots,
            qubits]`` for ``Samples``.
        """
        qubits: set[int] = set()
        for request in requests:
            assert not isinstance(request, ShadowSnapshots)
            if isinstance(request, Frequencies):
                qubits.update(request.wires, request.signs)
            else:
                qubits.update(range(len(self.wires)))
        measured = [f"M {' '.join(map(str, sorted(qubits)))}"] if qubits else []
        self._n_rounds += 1
        packed = sample_program(
            [*self._steps, *measured],
            self.n_outcomes + len(qubits),
            sum(self.groups),
            jax.random.fold_in(self._key, self._n_rounds),
            self._faults.raise_faults(self._operands, self.fault),
            self.where,
        )
        if self.packed_outcomes is None:
            self.packed_outcomes = packed
        place = {qubit: self.n_outcomes + number for number, qubit in enumerate(sorted(qubits))}
        bits = lambda some: read_bits(packed, np.array([place[qubit] for qubit in some], int))
        ones = jnp.ones(sum(self.groups))
        return [
            request.sum_weights(bits(request.wires), bits(request.signs), ones)
            / np.array(request.groups)[:, None]
            if isinstance(request, Frequencies)
            else bits(range(len(self.wires)))
            for request in requests
        ]
