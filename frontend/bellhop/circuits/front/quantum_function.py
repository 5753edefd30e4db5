"""The quantum function of a QNode, called once per compilation.

Backends may apply a quantum function to several circuits, for instance to find out which backend
supports it.  The user's function is called only for the first circuit and traced to a jaxpr with
gates, which is interpreted from then on::

    cached = CachedFunction(lambda x: (qml.RX(x, 0), qml.expval(qml.Z(0)))[1])
    function, [x] = cached.bind_arguments((x,), {})
    function.apply_to_circuit(circuit, [x])   traces { lambda ; x. let quantum_operations[RX] x },
                                              and interprets it
    function.apply_to_circuit(circuit, [y])   interprets the same jaxpr
"""

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import jax
import pennylane as qml
from jax.extend.core import ClosedJaxpr
from pennylane.operation import Operator

from bellhop.arguments.flat_tree import split_leaves
from bellhop.base.source import set_function_name
from bellhop.base.value_checks import flatten_sortable
from bellhop.circuits.front.returned_measurements import mark_returned
from bellhop.circuits.gates.half_precision import promote_half_precision
from bellhop.circuits.gates.traced_operators import TracedOperator
from bellhop.circuits.ir.interpreter import GateReceiver, Interpreter
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.passes.pass_chain import PassChain
from bellhop.circuits.passes.tracing_circuit import TracingCircuit
from bellhop.errors import CompileError
from bellhop.tracing.current_circuit import CurrentCircuit
from bellhop.tracing.state import circuit_scope


@dataclass(frozen=True)
class TracedQuantumFunction:
    """A quantum function traced to a jaxpr with gates.

    Attributes:
        closed: jaxpr, ``inputs -> tracers in the leaves of the function's result``.
        leaves: template of the leaves (measurement processes, numbers), which
            ``leaves.with_values`` fills with the results of ``closed``.
        sites: for each leaf, the user's ``file:line`` of the leaf and of its observable, or empty
            strings.
        leaf_types: the class of each leaf.
        measures_at_end: whether all leaves are measurements at the end of the circuit: no numbers,
            and no measurements of mid-circuit outcomes.
        tree: the tree structure of the function's result.
    """

    closed: ClosedJaxpr
    leaves: TracedOperator
    sites: Sequence[tuple[str, str]]
    leaf_types: Sequence[type]
    measures_at_end: bool
    tree: Any


def _trace_function(
    where: str,
    circuit: CurrentCircuit | None,
    function: Callable[..., Any],
    inputs: Sequence[Any],
) -> TracedQuantumFunction:
    """Call the user's quantum function, and trace it to a jaxpr with gates.

    Args:
        where: the QNode's name and line, for error messages.
        circuit: the circuit that will receive the gates; None before this circuit exists.
        function: the quantum function of arrays.
        inputs: its arguments.
    """
    static_parts: Any = None

    def run(*inputs: Any) -> list[Any]:
        """Call the user's function in a tracing circuit; return its result's tracers.

        JAX traces this function. The static parts of the result are stored in ``static_parts``.
        """
        nonlocal static_parts
        # Constructed inside the trace, since it holds tracers, which must not leak.
        tracing = TracingCircuit(where, circuit, is_whole=True)
        with circuit_scope(tracing), tracing.open_queue():
            result = function(*inputs)
            # PennyLane registers operators as pytrees, which must not be flattened here.
            leaves, tree = flatten_sortable(
                f"{where}: the result",
                result,
                lambda value: is_measurement(value) or isinstance(value, Operator),
            )
            mark_returned(result)
        template, operands = TracedOperator.partition(leaves)
        sites = [
            (tracing.find_site(leaf), tracing.find_site(getattr(leaf, "obs", None)))
            for leaf in leaves
        ]
        measures_at_end = all(is_measurement(leaf) and leaf.mv is None for leaf in leaves)
        static_parts = template, sites, list(map(type, leaves)), measures_at_end, tree
        return operands

    # JAX's errors name the user's function, without its parameters, which are others.
    set_function_name(function, run)
    run.__signature__ = inspect.signature(run, follow_wrapped=False)  # type: ignore[attr-defined]
    closed = jax.make_jaxpr(run)(*inputs)
    return TracedQuantumFunction(closed, *static_parts)


def _check_result(leaves: Sequence[Any], where: str, *, allows_outcomes: bool) -> None:
    """Raise an error unless all leaves of a result are measurements or numbers.

    Args:
        leaves: the leaves of the quantum function's result.
        where: the QNode and its line, for errors.
        allows_outcomes: whether PennyLane's ``MeasurementValue`` is allowed, as on tapes.

    Raises:
        CompileError: for an empty result, or a leaf of another type.
    """
    if not leaves:
        raise CompileError(
            f"{where}: the quantum function returned no value, expected measurements (a pytree of "
            "qml.expval, qml.probs, ...), numbers or arrays. Return a measurement."
        )
    numbers = jax.Array | bool | int | float | complex
    for leaf in leaves:
        if allows_outcomes and isinstance(leaf, qml.ops.MeasurementValue):
            continue
        is_number = isinstance(leaf, numbers) or hasattr(leaf, "__array__")
        if not is_measurement(leaf) and not is_number:
            is_operator = isinstance(leaf, Operator)
            raise CompileError(
                f"{where}: the quantum function returned a {type(leaf).__name__}, expected "
                "measurements, numbers or arrays. "
                f"{'Measure the operator: qml.expval(...)' if is_operator else 'Return arrays'}."
            )


class CachedFunction:
    """A user's quantum function during one QNode call, with a cache of its traced jaxprs.

    If the circuit is traced several times, as for zero-noise extrapolation, the user's function is
    not called again, unless other arguments count as arrays (see ``bind_arguments``).

    Args:
        function: the user's function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._traced: dict[tuple[int, ...], list[TracedQuantumFunction]] = {}

    def bind_arguments(
        self,
        args: Any,
        kwargs: Any,
        leaf_type: type = jax.Array,
        passes: PassChain | None = None,
    ) -> tuple["QuantumFunction", list[Any]]:
        """Bind the static arguments, to make a quantum function of the array arguments alone.

        Args:
            args: the positional arguments of the quantum function.
            kwargs: its keyword arguments.
            leaf_type: leaves of this type are inputs; all other leaves are static.
            passes: rewrite the gates before a circuit receives them; None to expand adjoint and
                controlled functions only.

        Returns:
            the quantum function of the inputs, and the inputs.
        """
        is_computed = lambda leaf: isinstance(leaf, leaf_type)
        places, leaves, filled = split_leaves((args, kwargs), is_computed)

        def run(*inputs: Any) -> Any:
            """Call the user's function, with inputs in place of its array arguments."""
            args, kwargs = filled(inputs)
            return self._function(*args, **kwargs)

        set_function_name(self._function, run)
        traced = self._traced.setdefault(places, [])
        return QuantumFunction(traced, run, passes or PassChain()), leaves


class QuantumFunction:
    """A quantum function whose arguments are arrays only, and which is traced at most once.

    Backends get it as ``Circuit.function`` and may apply it to several circuits.

    Args:
        traced: a list that caches the traced function: empty before tracing, then with one element.
        function: the quantum function of the arrays.
        passes: rewrite the gates before a circuit receives them.
    """

    def __init__(
        self,
        traced: list[TracedQuantumFunction],
        function: Callable[..., Any],
        passes: PassChain,
    ) -> None:
        self._traced = traced
        self._function = function
        self._passes = passes

    def get_traced(
        self, where: str, inputs: Sequence[Any], circuit: CurrentCircuit | None = None
    ) -> TracedQuantumFunction:
        """Return this function as a jaxpr; the first call traces the user's function.

        Later calls return the same jaxpr and ignore all arguments.

        Args:
            where: the QNode's name and line, for error messages.
            inputs: the arrays, as example arguments.
            circuit: the circuit that will receive the gates; None before it exists.
        """
        if not self._traced:
            self._traced.append(_trace_function(where, circuit, self._function, inputs))
        return self._traced[0]

    def apply_to_circuit(
        self, circuit: GateReceiver, inputs: Sequence[Any], first: Interpreter | None = None
    ) -> tuple[list[Any], Any]:
        """Apply the gates of this function to a circuit; trace the function if necessary.

        Parameters of measured observables are cast from half to single precision, and their dtypes
        take part in the choice of the precision of the circuit's results.

        Args:
            circuit: the backend's circuit, which receives the gates and the measurements' source
                lines.
            inputs: the arrays that are the function's arguments.
            first: the first interpreter of a chain of passes that ends in ``circuit``; None for the
                passes of the constructor.

        Returns:
            the leaves (measurement processes on wires of the device, numbers and arrays) and the
            tree structure of the function's result.

        Raises:
            CompileError: if the function returns nothing, or a leaf that is neither a
                measurement nor a number.
        """
        # Decompositions with control flow call further methods, which `BackendCircuit` has.
        current = cast(CurrentCircuit, circuit)
        traced = self.get_traced(circuit.where, inputs, current)
        with circuit_scope(current), qml.QueuingManager.stop_recording():
            operands = self._passes.interpret(circuit, first, traced.closed, inputs)
        leaves = []
        for traced_leaf, (site, observable_site) in zip(
            traced.leaves.with_values(operands), traced.sites, strict=True
        ):
            leaf = traced_leaf
            if is_measurement(leaf):
                leaf = circuit.wires.map_process(leaf)
            observable = getattr(leaf, "obs", None)
            if observable is not None:
                circuit.precision.include(observable.data)
                original, observable = observable, promote_half_precision(observable)
                if observable is not original:
                    leaf = copy.copy(leaf)
                    leaf.obs = observable
            circuit.record_site(leaf, site)
            circuit.record_site(observable, observable_site)
            leaves.append(leaf)
        _check_result(leaves, circuit.where, allows_outcomes=circuit.has_operation_outcomes)
        return leaves, traced.tree

    def get_constants(self) -> list[Any]:
        """Return the arrays of the enclosing program that the traced function closes over.

        The function must have been traced already, by `get_traced` or `apply_to_circuit`.
        """
        return list(self._traced[0].closed.consts)

    @contextmanager
    def override_constants(self, constants: Sequence[Any]) -> Iterator[None]:
        """Replace the arrays that the traced function closes over, within a ``with`` block.

        The function must have been traced already.

        Args:
            constants: an array for each of ``get_constants()``, in order.
        """
        [traced] = self._traced
        closed = ClosedJaxpr(traced.closed.jaxpr, list(constants))
        self._traced[0] = replace(traced, closed=closed)
        try:
            yield
        finally:
            self._traced[0] = traced
