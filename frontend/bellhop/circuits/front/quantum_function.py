"""The quantum function of a QNode, run once a compilation.

How a circuit is traced is found out by trying: with measurements that are deferred, or with their
outcomes; for the engine, or as a part of the program; for one run, or for rows.  The user's
function is run the first time alone, into a jaxpr with gates, which is played from then on::

    function = QuantumFunction.of(lambda x: (qml.RX(x, 0), qml.expval(qml.Z(0)))[1], (x,), {})
    function.play(circuit, [x])     runs it, and plays { lambda ; x. let quantum_operations[RX] x }
    function.play(circuit, [y])     plays that again
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import jax
import pennylane as qml
from jax.extend.core import ClosedJaxpr
from pennylane.operation import Operator

from bellhop.arguments.flat_tree import split_leaves
from bellhop.circuits.front.returned_measurements import mark_returned
from bellhop.circuits.gates.half_precision import promote_half_precision
from bellhop.circuits.gates.traced_operators import TracedOperator
from bellhop.circuits.ir.circuit import GateReceiver
from bellhop.circuits.ir.gate_jaxpr import GateJaxpr
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.passes.gate_replay import Player
from bellhop.circuits.passes.tracing_circuit import TracingCircuit
from bellhop.errors import CompileError
from bellhop.tracing.current_circuit import CurrentCircuit
from bellhop.tracing.state import circuit_scope


@dataclass(frozen=True)
class TracedQuantumFunction:
    """A quantum function as traced.

    Attributes:
        closed: takes the inputs; returns what is traced in the leaves of the result.
        leaves: of the result, without that.
        sites: where the user made each of them, and its observable.
        tree: the structure of the result.
    """

    closed: ClosedJaxpr
    leaves: TracedOperator
    sites: Sequence[tuple[str, str]]
    tree: Any


def _trace_function(
    where: str,
    circuit: CurrentCircuit | None,
    function: Callable[..., Any],
    inputs: Sequence[Any],
) -> TracedQuantumFunction:
    made: Any = None

    def run(*inputs: Any) -> list[Any]:
        nonlocal made
        # Made here, since it holds what is traced, which must not be left behind.
        tracing = TracingCircuit(where, circuit, is_whole=True)
        with circuit_scope(tracing), tracing.open_queue():
            result = function(*inputs)
            mark_returned(result)
        # PennyLane registers its operators as pytrees, so they must be leaves explicitly.
        leaves, tree = jax.tree.flatten(
            result, is_leaf=lambda value: is_measurement(value) or isinstance(value, Operator)
        )
        template, operands = TracedOperator.partition(leaves)
        sites = [
            (tracing.find_site(leaf), tracing.find_site(getattr(leaf, "obs", None)))
            for leaf in leaves
        ]
        made = template, sites, tree
        return operands

    closed = jax.make_jaxpr(run)(*inputs)
    return TracedQuantumFunction(closed, *made)


def _check_result(leaves: Sequence[Any], where: str, *, allows_outcomes: bool) -> None:
    """Refuse a result that is neither measurements nor numbers.

    Args:
        leaves: of the result.
        where: the QNode and its line, for errors.
        allows_outcomes: whether outcomes are objects of PennyLane's, which a tape measures.
    """
    if not leaves:
        raise CompileError(
            f"{where}: a quantum function must return something: measurements (a pytree "
            "of qml.expval, qml.probs, ...), numbers or arrays."
        )
    numbers = jax.Array | bool | int | float | complex
    for leaf in leaves:
        if allows_outcomes and isinstance(leaf, qml.ops.MeasurementValue):
            continue
        is_number = isinstance(leaf, numbers) or hasattr(leaf, "__array__")
        if not is_measurement(leaf) and not is_number:
            raise CompileError(
                f"{where}: a quantum function returns measurements and numbers; it "
                f"returned a {type(leaf).__name__}."
                f"{' Measure it: qml.expval(...).' if isinstance(leaf, Operator) else ''}"
            )


class CachedFunction:
    """A quantum function that is run the first time that it is called, and played from then on.

    Args:
        function: takes any arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._traced: dict[tuple[int, ...], list[TracedQuantumFunction]] = {}

    def bind_arguments(
        self,
        args: Any,
        kwargs: Any,
        leaf_type: type = jax.Array,
        n_folds: int = 0,
        change: Callable[..., Any] | None = None,
    ) -> tuple["QuantumFunction", list[Any]]:
        """Return the function of those leaves of its arguments that are computed, and these.

        Others stay static: numbers become constants of the gates.

        Args:
            args: its arguments.
            kwargs: its arguments by name.
            leaf_type: the type of what is computed.
            n_folds: how often it is folded.
            change: changes the operations before a circuit gets them.
        """
        is_computed = lambda leaf: isinstance(leaf, leaf_type)
        places, leaves, filled = split_leaves((args, kwargs), is_computed)

        def run(*inputs: Any) -> Any:
            args, kwargs = filled(inputs)
            return self._function(*args, **kwargs)

        return QuantumFunction(self._traced.setdefault(places, []), run, n_folds, change), leaves


class QuantumFunction:
    """A quantum function of arrays, run once.

    Args:
        get_traced: what it was traced to, in a list as long as that is known.
        function: takes the arrays.
        folds: how often it is folded, for zero-noise extrapolation: ``U (U^-1 U)^folds``.
        change: changes the operations before a circuit gets them.
    """

    def __init__(
        self,
        traced: list[TracedQuantumFunction],
        function: Callable[..., Any],
        n_folds: int,
        change: Callable[..., Any] | None,
    ) -> None:
        self._traced = traced
        self._function = function
        self._n_folds = n_folds
        self._change = change

    def get_traced(
        self, where: str, inputs: Sequence[Any], circuit: CurrentCircuit | None = None
    ) -> TracedQuantumFunction:
        """Return what it was traced to.

        Args:
            where: the QNode and its line, for errors.
            inputs: the arrays.
            circuit: the one that is meant, if it is known the first time.
        """
        if not self._traced:
            self._traced.append(_trace_function(where, circuit, self._function, inputs))
        return self._traced[0]

    def apply_to_circuit(
        self, circuit: GateReceiver, inputs: Sequence[Any], player: Player | None = None
    ) -> tuple[list[Any], Any]:
        """Apply the gates to a circuit; return the leaves and the structure of its result.

        Args:
            circuit: the circuit.
            inputs: the arrays.
            player: plays them, if not a player that only changes operations.
        """
        traced = self.get_traced(circuit.where, inputs, circuit)
        if player is None:
            player = Player() if self._change is None else Player(self._change)
        with circuit_scope(circuit), qml.QueuingManager.stop_recording():
            operands = player.interpret(traced.closed, *inputs)
            player.fold(GateJaxpr(traced.closed, inputs), self._n_folds)
        leaves = []
        for made, (site, of_observable) in zip(
            traced.leaves.with_values(operands), traced.sites, strict=True
        ):
            leaf = circuit.wires.map_process(made) if is_measurement(made) else made
            observable = getattr(leaf, "obs", None)
            if observable is not None:
                circuit.precision.include(observable.data)
                given, observable = observable, promote_half_precision(observable)
                if observable is not given:
                    leaf = copy.copy(leaf)
                    leaf.obs = observable
            circuit.record_site(leaf, site)
            circuit.record_site(observable, of_observable)
            leaves.append(leaf)
        _check_result(leaves, circuit.where, allows_outcomes=circuit.has_operation_outcomes)
        return leaves, traced.tree

    def get_constants(self) -> list[Any]:
        """Return the arrays of the program around it that it uses; it was called before."""
        return list(self._traced[0].closed.consts)

    @contextmanager
    def override_constants(self, constants: Sequence[Any]) -> Iterator[None]:
        """Let others stand for these arrays."""
        [traced] = self._traced
        closed = ClosedJaxpr(traced.closed.jaxpr, list(constants))
        self._traced[0] = replace(traced, closed=closed)
        try:
            yield
        finally:
            self._traced[0] = traced
