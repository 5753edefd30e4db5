"""Branches and loop bodies, traced once, with results of types that agree."""

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, JaxprEqn
from jax.tree_util import PyTreeDef

from bellhop.arguments.flat_tree import FlatTree, describe_structure
from bellhop.arguments.signature import as_array, uncalled_loop_hint
from bellhop.base.types import Operand, PyTree
from bellhop.tracing.current_circuit import Branches
from bellhop.tracing.state import current_circuit, current_gate_recorder

Step = Callable[..., tuple[Any, Any]]


class Gates:
    """What a function returns that applied gates and has no value."""


_PYTHON_TYPES = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


class TracedStep:
    """Runs an iteration of a loop that was traced.

    Attributes:
        has_effects: whether it does more than to compute.
        closed: what was traced.
    """

    def __init__(self, closed: ClosedJaxpr, out_tree: PyTreeDef) -> None:
        self.has_effects = bool(closed.effects)
        self.closed = closed
        self._out_tree = out_tree

    def __call__(self, carried: tuple[Any, ...], *others: Any) -> tuple[Any, Any]:
        """Return the next carried values, and what else the iteration returns."""
        leaves = jax.tree.leaves((carried, others))
        result, rest = jax.tree.unflatten(
            self._out_tree, eval_jaxpr(self.closed.jaxpr, self.closed.consts, *leaves)
        )
        return _map_leaves(_cast, result, FlatTree.flatten(carried)).unflatten(), rest

    def with_equations(self, equations: list[JaxprEqn]) -> "TracedStep":
        """Return the step with other equations, of the same variables."""
        changed = self.closed.jaxpr.replace(eqns=equations)
        return TracedStep(ClosedJaxpr(changed, self.closed.consts), self._out_tree)


def trace_step(
    construct: str,
    step: Step,
    carried: tuple[Any, ...],
    *others: Any,
) -> tuple[tuple[Any, ...], TracedStep]:
    """Trace one iteration of a loop.

    Args:
        construct: the loop, for errors.
        step: takes the carried values and ``others``; returns the next carried values, and
            anything else.
        carried: what the first iteration gets.
        others: arrays.

    Returns:
        the carried values in the types that they have in every iteration, and the function
        that runs what was traced.

    Raises:
        TypeError: where the iteration changes the structure or a shape, or a carried value is no
            array.
    """
    first = _map_leaves(functools.partial(_first, construct), FlatTree.flatten(carried))
    while True:
        closed, (result, rest) = _trace_flat(step, first.unflatten(), *others)
        widened = _map_leaves(_promote, first, result)
        if all(map(_same_dtype, first.leaves, widened.leaves)):
            break
        # Python decides by types, and leaves no trace of it: the jnp.floor of an integer is no
        # equation. So the body is traced again with the wider ones, as by JAX's loops.
        first = widened
    first = _map_leaves(_cast, first, first)
    return first.unflatten(), TracedStep(closed, jax.tree.structure((result, rest)))


def trace_branches(branches: Branches, *others: Any) -> tuple[list[Step], list[Any]]:
    """Trace the branches of a conditional.

    Args:
        branches: functions of ``others``, which return the branch's result and anything else.
        others: arrays.

    Returns:
        functions that run what was traced, with results of the same types; and the shapes of
        what else each branch returns.

    Raises:
        TypeError: where structures or shapes of the results differ.
    """
    names = branches.names
    traced = [_trace_flat(branch, *others) for branch in branches.functions]
    results = [types[0] for _, types in traced]
    # PennyLane's functions of gates return one thing and another, an empty list for example.
    are_gates = not jax.tree.leaves(results) and len({result.tree for result in results}) > 1
    if are_gates:
        results = [FlatTree.flatten(None)] * len(results)
    for name, result in zip(names, results, strict=True):
        check_same_structure(
            branches.construct, f"{names[0]} has", results[0], f"{name} returns", result
        )
    common = _map_leaves(_common_dtype, *results)

    def runner(closed: ClosedJaxpr, out_tree: PyTreeDef) -> Step:
        def run(*others: Any) -> tuple[Any, Any]:
            leaves = eval_jaxpr(closed.jaxpr, closed.consts, *jax.tree.leaves(others))
            result, rest = jax.tree.unflatten(out_tree, leaves)
            return None if are_gates else _map_leaves(_cast, result, common).unflatten(), rest

        return run

    runners = [runner(closed, jax.tree.structure(types)) for closed, types in traced]
    return runners, [types[1] for _, types in traced]


def run_branch(
    construct: str, index: Any, names: Sequence[str], branches: Sequence[Callable[[], Any]]
) -> Any:
    """Run the branch with a number, and only that one; return its result.

    Outside circuits, ``jax.vmap`` with an index for each element makes JAX run all branches and
    select; circuits run one by one, so theirs stay conditionals.
    """

    def result_of(name: str, branch: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: classical_result(construct, name, branch())

    checked = [result_of(name, branch) for name, branch in zip(names, branches, strict=True)]
    circuit = current_gate_recorder()
    run = run_chosen_branch if circuit is None else circuit.branch
    return run(Branches(construct, index, names, checked))


def run_chosen_branch(branches: Branches) -> Any:
    """Run one branch of a conditional that applies no gates; return its result."""
    runners, _ = trace_branches(branches.map_functions(lambda branch: lambda: (branch(), ())))
    return jax.lax.switch(branches.index, runners)[0]


def _trace_flat(step: Step, *args: Any) -> tuple[ClosedJaxpr, tuple[FlatTree, Any]]:
    """Trace a function; return the types of its result, and of what else it returns."""

    def flat(*args: Any) -> tuple[FlatTree, Any]:
        result, rest = step(*args)
        return FlatTree.flatten(result), rest

    closed, types = jax.make_jaxpr(flat, return_shape=True)(*args)
    return closed, types


def _first(construct: str, value: object) -> Any:
    try:
        return as_array(value)
    except TypeError:
        raise TypeError(
            f"{construct}: a value that the loop is given is a {type(value).__name__}, and only "
            "arrays and numbers can be carried. Take anything else from around the body."
        ) from None


def _map_leaves(change: Callable[..., Any], first: FlatTree, *others: FlatTree) -> FlatTree:
    """Return what becomes of each leaf, with those of others in its place."""
    columns = zip(first.leaves, *(other.leaves for other in others), strict=True)
    return first.replace_leaves([change(*column) for column in columns])


def classical_result(construct: str, name: str, result: PyTree) -> Any:
    """Return a result without the gates of a circuit in it, which were queued when they were made.

    Raises:
        TypeError: for what is neither array, number nor gate.
    """
    if "pennylane" in sys.modules:
        import pennylane as qml

        # Elsewhere an operator is a pytree as any other.
        has_gates = current_circuit() is not None or qml.QueuingManager.recording()
        gates: Any = (qml.operation.Operator, Gates) if has_gates else ()
        measurements: Any = (qml.measurements.MeasurementProcess,)
    else:
        gates = measurements = ()
    quantum = (*gates, *measurements)

    def check(leaf: object) -> Any:
        if isinstance(leaf, gates):
            return None
        if isinstance(leaf, measurements):
            raise TypeError(
                f"{construct}: {name} returns the measurement {leaf}. Only the quantum function "
                "itself returns measurements."
            )
        try:
            return as_array(leaf)
        except TypeError:
            raise TypeError(
                f"{construct}: {name} returns a {type(leaf).__name__}, and only arrays and numbers "
                f"can be returned{uncalled_loop_hint(leaf)}."
            ) from None

    leaves, tree = jax.tree.flatten(result, is_leaf=lambda leaf: isinstance(leaf, quantum))
    checked = [check(leaf) for leaf in leaves]
    # A branch that applies two gates may do so in a tuple.
    is_only_gates = checked and all(leaf is None for leaf in checked)
    return None if is_only_gates else jax.tree.unflatten(tree, checked)


def check_same_structure(
    construct: str, first: str, one: FlatTree, second: str, other: FlatTree
) -> None:
    """Check that two values are of one structure, and of the same shapes.

    Args:
        construct: where they come together.
        first: who has the one, and a verb.
        one: that value.
        second: who has the other, and a verb.
        other: that value.

    Raises:
        TypeError: where they are not.
    """
    if one.tree != other.tree:
        raise TypeError(
            f"{construct}: the structures differ: {first} {describe_structure(one.tree)}, and "
            f"{second} {describe_structure(other.tree)}. Return the same structure."
        )
    if list(map(jnp.shape, one.leaves)) != list(map(jnp.shape, other.leaves)):
        raise TypeError(
            f"{construct}: the shapes differ: {first} {_format_leaves(one)}, and {second} "
            f"{_format_leaves(other)}. Return arrays of the same shapes."
        )


def _format_leaves(flat: FlatTree) -> str:
    return ", ".join(f"{jnp.result_type(x)}{list(jnp.shape(x))}" for x in flat.leaves)


def _common_dtype(*leaves: Operand) -> Any:
    first = leaves[0]
    # Random keys are of a type that promotion does not know.
    if all(_same_dtype(first, leaf) for leaf in leaves):
        return jax.ShapeDtypeStruct(first.shape, first.dtype)
    # A Python type is what JAX promotes weakly; it does not look for that at a shape's own mark.
    types = [_PYTHON_TYPES[leaf.dtype.kind] if leaf.weak_type else leaf.dtype for leaf in leaves]
    return jax.ShapeDtypeStruct(first.shape, jnp.result_type(*types))


def _promote(value: object, returned: Any) -> Any:
    common = _common_dtype(value, returned)
    return value if _same_dtype(value, common) else _cast(value, common)


def _same_dtype(one: Any, other: Any) -> bool:
    return bool(one.dtype == other.dtype)


def _cast(value: object, like: Any) -> Any:
    if jnp.issubdtype(like.dtype, jax.dtypes.extended):
        return value
    # No longer weakly typed either: what a variable of the program holds is of its type.
    return jax.lax.convert_element_type(value, like.dtype)
