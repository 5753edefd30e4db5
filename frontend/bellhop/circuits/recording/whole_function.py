"""The quantum function of a QNode, run once a compilation.

How a circuit is traced is found out by trying: with measurements that are deferred, or with their
outcomes; for the engine, or as a part of the program; for one run, or for rows.  The user's
function is run the first time alone, into a jaxpr with gates, which is played from then on::

    function = RunOnce(lambda x: (qml.RX(x, 0), qml.expval(qml.Z(0)))[1])
    function(x)     runs it, and plays { lambda ; x. let quantum_operations[[RX]] x in () }
    function(y)     plays that again
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr
from pennylane.operation import Operator

from bellhop.circuits.measure.process import is_measurement
from bellhop.circuits.recording.gate_jaxpr import joint_p, outcome_p
from bellhop.circuits.recording.gate_replay import Player
from bellhop.circuits.recording.inverted_functions import TracingCircuit
from bellhop.circuits.recording.queue import QueuedCircuit
from bellhop.circuits.recording.returned_measurements import hand_on
from bellhop.circuits.recording.traced_operators import TracedOperator
from bellhop.tracing.state import circuit_scope, current_circuit


class WholeCircuit(TracingCircuit):
    """The current circuit while the quantum function of a QNode is traced into a jaxpr.

    Args:
        circuit: the one that is meant.
    """

    def __init__(self, circuit: Any) -> None:
        super().__init__(circuit, is_inverted=False)
        self.needs_measurements = circuit.needs_measurements

    def allocate(self, op: Any) -> None:
        """Append an equation, since the circuit has the wires."""
        self.apply([op])

    def mid_measure(self, label: Any, *, reset: bool, postselect: int, site: str) -> Any:
        """Append an equation for a measurement; return its outcome."""
        self.flush_active("measure")
        if self._circuit.outcomes_are_operations:
            return self._circuit.outcome(label, reset=reset, postselect=postselect)
        wire, operands = TracedOperator.of([label])
        options = {"reset": reset, "postselect": postselect, "site": site}
        [outcome] = outcome_p.bind(*operands, operator=wire, **options)
        return outcome

    def joint_measure(self, site: str) -> None:
        """Append an equation for taking note of one."""
        joint_p.bind(site=site)


@dataclass(frozen=True)
class _Function:
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

    @classmethod
    def of(cls, circuit: Any, function: Callable[..., Any], inputs: Sequence[Any]) -> "_Function":
        made: Any = None

        def run(*inputs: Any) -> list[Any]:
            nonlocal made
            # Made here, since it holds what is traced, which must not be left behind.
            tracing = WholeCircuit(circuit)
            with circuit_scope(tracing), tracing.queue():
                result = function(*inputs)
                hand_on(result)
            # PennyLane registers its operators as pytrees, so they must be leaves explicitly.
            leaves, tree = jax.tree.flatten(
                result, is_leaf=lambda value: is_measurement(value) or isinstance(value, Operator)
            )
            tracing.check_observables(filter(is_measurement, leaves))
            template, operands = TracedOperator.of(leaves)
            sites = [
                (tracing.site_of(leaf), tracing.site_of(getattr(leaf, "obs", None)))
                for leaf in leaves
            ]
            made = template, sites, tree
            return operands

        closed = jax.make_jaxpr(run)(*inputs)
        return cls(closed, *made)

    def play(self, circuit: QueuedCircuit, inputs: Sequence[Any]) -> Any:
        """Apply the gates to a circuit; return the result."""
        circuit.expect(self.closed.jaxpr)
        operands = Player(writes=True).play(self.closed, *inputs)
        leaves = self.leaves.with_values(operands)
        for leaf, (site, of_observable) in zip(leaves, self.sites, strict=True):
            circuit.place(leaf, site)
            circuit.place(getattr(leaf, "obs", None), of_observable)
        return jax.tree.unflatten(self.tree, leaves)


class RunOnce:
    """A quantum function that is run the first time that it is called, and played from then on.

    Args:
        function: takes any arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._traced: dict[tuple[int, ...], list[_Function]] = {}

    def of(self, args: Any, kwargs: Any, computed: type = jax.Array) -> tuple["Played", list[Any]]:
        """Return the function of those leaves of its arguments that are computed, and these.

        Others stay static: numbers become constants of the gates.

        Args:
            args: its arguments.
            kwargs: its arguments by name.
            computed: the type of what is computed.
        """
        leaves, tree = jax.tree.flatten((args, kwargs))
        places = tuple(n for n, leaf in enumerate(leaves) if isinstance(leaf, computed))

        def run(*inputs: Any) -> Any:
            given = dict(zip(places, inputs, strict=True))
            full = [given.get(place, leaf) for place, leaf in enumerate(leaves)]
            args, kwargs = jax.tree.unflatten(tree, full)
            return self._function(*args, **kwargs)

        play = Played(self._traced.setdefault(places, []), run)
        return play, [leaves[place] for place in places]


class Played:
    """A quantum function of arrays, run once.

    Args:
        traced: what it was traced to, in a list as long as that is known.
        function: takes the arrays.
    """

    def __init__(self, traced: list[_Function], function: Callable[..., Any]) -> None:
        self._traced = traced
        self._function = function

    def __call__(self, *inputs: Any) -> Any:
        """Apply the gates to the current circuit; return the result."""
        circuit = current_circuit()
        if not self._traced:
            self._traced.append(_Function.of(circuit, self._function, inputs))
        return self._traced[0].play(circuit, inputs)

    def constants(self) -> list[Any]:
        """Return the arrays of the program around it that it uses; it was called before."""
        return list(self._traced[0].closed.consts)

    @contextmanager
    def with_constants(self, constants: Sequence[Any]) -> Iterator[None]:
        """Let others stand for these arrays."""
        [traced] = self._traced
        closed = ClosedJaxpr(traced.closed.jaxpr, list(constants))
        self._traced[0] = replace(traced, closed=closed)
        try:
            yield
        finally:
            self._traced[0] = traced
