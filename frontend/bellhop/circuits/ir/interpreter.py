"""Interpreters of jaxprs with gates: analyses, passes and backends.

An `Interpreter` has one method for each construct of a circuit.  A backend executes the construct
(``RX(x, 0)`` becomes an equation of the program), and a pass changes the construct and calls the
same method of the next interpreter::

    pass: add a control        apply([RX(x, 0)])  ->  backend.apply([ctrl(RX(x, 0), 1)])
    backend: record gates      apply([CRX(x, [1, 0])])

So passes form a chain that ends in a backend, and each construct goes through the chain once: no
pass traces the circuit again.
"""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from jax.extend.core import ClosedJaxpr, JaxprEqn, Primitive
from jax.extend.core.primitives import cond_p, while_p

from bellhop.base.types import Operand, Wire
from bellhop.circuits.ir.gate_jaxpr import (
    ForLoop,
    WhileLoop,
    for_loop_p,
    has_gates,
    operations_p,
    outcome_p,
    region_p,
)
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.wires import WireMap
from bellhop.jaxprs.constant_eval import evaluate_or_bind
from bellhop.jaxprs.jaxpr_interpreter import Rule, interpret_with
from bellhop.tracing.current_circuit import Branches


class GateInterpreter(ABC):
    """Interprets a jaxpr with gates, by one method for each kind of equation.

    Subclasses define the ``_interpret_...`` methods, which receive the equation and the values of
    its operands, and return the values of its results.  Equations without gates are evaluated as
    they are.
    """

    def interpret(self, closed: ClosedJaxpr, *inputs: Any) -> list[Any]:
        """Evaluate a jaxpr with gates, equation by equation.

        Args:
            closed: the jaxpr.
            inputs: a value for each input of the jaxpr, static or traced.

        Returns:
            the values of the jaxpr's outputs.
        """
        rules: dict[Primitive, Rule] = {
            operations_p: self._interpret_operations,
            outcome_p: self._interpret_outcome,
            region_p: self._interpret_region,
            for_loop_p: self._interpret_for_loop,
            while_p: self._interpret_while_loop,
            cond_p: self._interpret_cond,
        }
        rule_of = lambda eqn: rules[eqn.primitive] if has_gates(eqn) else self._interpret_classical
        return interpret_with(closed, rule_of, *inputs)

    def _interpret_classical(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]:
        """Evaluate an equation without gates; return its results.

        NumPy evaluates integer equations of constants; any other equation is bound again.
        """
        return evaluate_or_bind(eqn, *operands)

    @abstractmethod
    def _interpret_operations(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]: ...
    @abstractmethod
    def _interpret_outcome(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]: ...
    @abstractmethod
    def _interpret_region(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]: ...
    @abstractmethod
    def _interpret_for_loop(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]: ...
    @abstractmethod
    def _interpret_while_loop(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]: ...
    @abstractmethod
    def _interpret_cond(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]: ...


class Interpreter(GateInterpreter):
    """Interprets a circuit, by one method for each construct.

    The constructs are operations (`apply`), measurements, loops and branches.  Passes derive from
    this class by `CircuitPass`, and backends by `GateReceiver`. A pass calls the same method of the
    next interpreter in its chain; a backend is the last one and executes the construct.

    The bodies of loops and branches are functions that call `interpret` of the first interpreter of
    the chain, so the gates in them go through all passes.

    Attributes:
        where: the QNode's name and line, for error messages.
        precision: derives the precision of the results from the parameters' dtypes.
    """

    where: str
    precision: Precision

    @abstractmethod
    def apply(self, operations: Sequence[Any]) -> None:
        """Apply operations in order: gates, channels, preparations and allocations."""

    @abstractmethod
    def mid_measure(
        self, label: Wire, *, reset: bool, postselect: int, site: str, is_joint: bool = False
    ) -> Any:
        """Measure a wire mid-circuit and collapse the state.

        Args:
            label: the wire, a label of the device or a tracer.
            reset: whether to reset the wire to zero afterwards.
            postselect: the outcome to postselect on, 0 or 1; -1 without postselection.
            site: the user's ``file:line`` of the measurement, for error messages.
            is_joint: whether gates around the measurement make it a measurement of several wires,
                as ``qml.pauli_measure`` is.

        Returns:
            the outcome: a traced bool, or PennyLane's ``MeasurementValue`` on a tape.
        """

    @abstractmethod
    def for_loop(
        self,
        n_iterations: int | Operand,
        body: Callable[..., Any],
        carried: tuple[Any, ...],
        *,
        can_unroll: bool = False,
    ) -> tuple[Any, ...]:
        """Apply a for loop whose body applies gates; return the carried values after it.

        Args:
            n_iterations: the trip count: an ``int``, or a tracer if it is dynamic.
            body: maps the carried values, a tuple, and the iteration's index to the next carried
                values.
            carried: the carried values of the first iteration.
            can_unroll: whether the loop nests other loops and can be unrolled, see
                ``ForLoop.can_unroll``.
        """

    @abstractmethod
    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Apply a while loop whose body applies gates; return the carried values after it.

        Args:
            condition: maps the carried values, a tuple, to whether another iteration follows.
            body: maps the carried values to the next carried values.
            carried: the carried values of the first iteration.
        """

    @abstractmethod
    def branch(self, branches: Branches) -> Any:
        """Add a conditional whose branches may apply gates; return its result.

        Args:
            branches: the index of the branch that runs, an int or a tracer, and the branches as
                functions without arguments, whose results have the same structure and types.
        """

    @abstractmethod
    def record_site(self, operation: Any, site: str) -> None:
        """Record the user's ``file:line`` that created an operation; empty if it is unknown."""

    @abstractmethod
    def find_site(self, operation: Any) -> str:
        """Return the user's ``file:line`` that created an operation, or ``""`` if unknown."""

    def apply_at_sites(self, operations: Sequence[Any], sites: Sequence[str]) -> None:
        """Apply operations that the user wrote, and record their source lines.

        The precision of the circuit's results takes the operations' parameters into account.

        Args:
            operations: PennyLane operations, in order.
            sites: for each operation, the user's ``file:line``; empty if it is unknown.
        """
        for op, site in zip(operations, sites, strict=True):
            self.record_site(op, site)
        # Precision depends on the user's parameters only: a decomposition adds constants to them.
        self.precision.include([op.data for op in operations])
        if operations:
            self.apply(operations)

    def _interpret_operations(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        """Apply the operations of a ``quantum_operations`` equation; return no results."""
        self.apply_at_sites(eqn.params["operator"].with_values(operands), eqn.params["sites"])
        return []

    def _interpret_outcome(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        """Interpret a ``quantum_outcome_of_wire`` equation by a call of `mid_measure`.

        Returns:
            a list with the outcome.
        """
        [wire] = eqn.params["operator"].with_values(operands)
        names = "reset", "postselect", "site", "is_joint"
        return [self.mid_measure(wire, **{name: eqn.params[name] for name in names})]

    def _interpret_region(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        """Raise an error for a ``quantum_region`` equation: an adjoint or controlled function.

        A `RegionPass` earlier in the chain must expand such equations.
        """
        raise AssertionError(
            f"{self.where}: an adjoint or controlled function reached {type(self).__name__}, "
            "expected gates only. Apply a RegionPass whose target is this interpreter."
        )

    def _interpret_for_loop(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        """Interpret a ``quantum_for_loop`` equation by a call of `for_loop`.

        Returns:
            the carried values after the loop.
        """
        loop = ForLoop.from_equation(eqn, operands)

        def body(carried: tuple[Any, ...], number: Any) -> tuple[Any, ...]:
            return tuple(self.interpret(loop.body, *loop.constants, number, *carried))

        return self.for_loop(loop.length, body, loop.carried, can_unroll=loop.can_unroll)

    def _interpret_while_loop(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        """Interpret a ``while`` equation whose body has gates by a call of `while_loop`.

        Returns:
            the carried values after the loop.
        """
        loop = WhileLoop.from_equation(eqn, operands)

        def body(carried: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(self.interpret(loop.body, *loop.constants, *carried))

        return self.while_loop(loop.condition, body, loop.carried)

    def _interpret_cond(self, eqn: JaxprEqn, *given: Any) -> Sequence[Any]:
        """Interpret a ``cond`` equation whose branches have gates by a call of `branch`.

        Args:
            given: the index of the branch, and the operands of all branches.

        Returns:
            the results of the branch that runs.
        """
        index, *operands = given
        functions = [
            partial(self.interpret, branch, *operands) for branch in eqn.params["branches"]
        ]
        # The names of branches appear only in errors about their result types, and tracing has
        # checked these.
        results: Sequence[Any] = self.branch(
            Branches("cond", index, [""] * len(functions), functions)
        )
        return results


class GateReceiver(Interpreter):
    """The last interpreter of a chain, which executes a circuit; backends subclass it.

    An instance is one circuit of a backend, and lives while the circuit is traced into the program.
    ``Circuit.function.apply_to_circuit`` applies a quantum function to it: after the passes, there
    are only operations, mid-circuit measurements, loops and conditionals.

    Args:
        wires: maps wire labels to qubits.
        where: the QNode's name and line, for error messages.

    Attributes:
        has_operation_outcomes: whether mid-circuit outcomes are PennyLane's ``MeasurementValue``
            objects, not arrays.
        allocates_wires: whether the backend executes allocations of wires itself; if not, a pass
            before the backend maps allocated wires to wires of the device.
        has_users_callbacks: whether callbacks that are called while this circuit is current are the
            user's, in which gates are an error; False while PennyLane's transforms are applied to a
            tape.
    """

    has_operation_outcomes: bool = False
    allocates_wires: bool = False
    has_users_callbacks: bool = True

    def __init__(self, wires: WireMap, where: str) -> None:
        self.wires = wires
        self.where = where
        self.precision = Precision()
        # Lines by ``id`` of the operation. References are weak, because operations may hold
        # tracers; `find_site` checks them, because Python reuses an ``id``.
        self._sites: dict[int, tuple[weakref.ref[Any], str]] = {}

    def add_own_passes(self, closed: ClosedJaxpr) -> Interpreter:
        """Return the first interpreter of the chain of this backend's own passes.

        The chain ends in ``self``, and is ``self`` alone for a backend without own passes.
        Subclasses choose the passes by ``closed``, the circuit's jaxpr with gates.
        """
        del closed
        return self

    def labels(self) -> Sequence[Any]:
        """Return the wire labels of the circuit, as far as they are known."""
        return self.wires.labels

    def is_collecting(self) -> bool:
        """Return whether operations are queued for this circuit: False, as it has no queue."""
        return False

    def record_site(self, operation: Any, site: str) -> None:
        """Record the user's ``file:line`` that created an operation or measurement.

        `find_site` returns the line for this object, as long as the object exists. An empty
        ``site`` means that the line is unknown, and records nothing.
        """
        if site:
            self._sites[id(operation)] = weakref.ref(operation), site

    def find_site(self, operation: Any) -> str:
        """Return the user's ``file:line`` that created an operation, or ``""`` if unknown."""
        reference, site = self._sites.get(id(operation), (None, ""))
        return site if reference is not None and reference() is operation else ""
