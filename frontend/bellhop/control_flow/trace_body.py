"""Tracing of branches and loop bodies, with promotion to common result types."""

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, JaxprEqn
from jax.tree_util import PyTreeDef

from bellhop.arguments.flat_tree import FlatTree
from bellhop.arguments.signature import as_array, uncalled_function_hint
from bellhop.arguments.structure_difference import describe_structures
from bellhop.base.source import set_function_name
from bellhop.base.types import Operand, PyTree
from bellhop.base.value_checks import flatten_sortable
from bellhop.tracing.current_circuit import Branches
from bellhop.tracing.state import current_circuit, current_gate_recorder

Step = Callable[..., tuple[Any, Any]]


class Gates:
    """Placeholder for the result of a function that applied gates and returned no value."""


_PYTHON_TYPES = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


class TracedStep:
    """One iteration of a loop as a jaxpr, which is called like the traced function.

    `trace_step` creates it. ``step(carried, *others)`` evaluates the jaxpr, and returns the next
    carried values and the other results of the iteration.

    Args:
        closed: jaxpr, ``(*leaves of carried, *leaves of others) -> leaves of the results``.
        out_tree: structure of the pair of results.

    Attributes:
        has_effects: whether the iteration has effects.
        closed: the jaxpr.
    """

    def __init__(self, closed: ClosedJaxpr, out_tree: PyTreeDef) -> None:
        self.has_effects = bool(closed.effects)
        self.closed = closed
        self._out_tree = out_tree

    def __call__(self, carried: tuple[Any, ...], *others: Any) -> tuple[Any, Any]:
        """Evaluate the iteration's jaxpr.

        Args:
            carried: carried values in the types that the iteration was traced for.
            *others: other arguments, such as the index of the iteration.

        Returns:
            the next carried values in the same types, and the other results.
        """
        leaves = jax.tree.leaves((carried, others))
        result, rest = jax.tree.unflatten(
            self._out_tree, eval_jaxpr(self.closed.jaxpr, self.closed.consts, *leaves)
        )
        return _map_leaves(_cast, result, FlatTree.flatten(carried)).unflatten(), rest

    def with_equations(self, equations: list[JaxprEqn]) -> "TracedStep":
        """Return a copy with other equations, which must define the same results."""
        changed = self.closed.jaxpr.replace(eqns=equations)
        return TracedStep(ClosedJaxpr(changed, self.closed.consts), self._out_tree)


def trace_step(
    construct: str,
    step: Step,
    carried: tuple[Any, ...],
    *others: Any,
    body: Callable[..., Any],
) -> tuple[tuple[Any, ...], TracedStep]:
    """Trace one iteration of a loop, promoting the types of carried values.

    A carried value that is an integer before the loop and a float after an iteration becomes a
    float before the loop. So `step` is traced again until the types no longer change.

    Args:
        construct: name of the loop, for errors.
        step: takes the carried values and ``others``; returns the next carried values and other
            results.
        carried: tuple of initial carried values, pytrees of arrays and numbers.
        others: example arguments, arrays.
        body: the user's function, whose name JAX's errors have.

    Returns:
        the initial carried values in their promoted types, and the traced iteration.

    Raises:
        TypeError: if an initial value is not an array or a number.
    """
    step = set_function_name(body, step)
    initial = FlatTree.flatten(carried)
    first = initial.replace_leaves(
        [
            _to_initial_array(construct, f"init{jax.tree_util.keystr(path)}", leaf)
            for path, leaf in zip(initial.paths, initial.leaves, strict=True)
        ]
    )
    while True:
        closed, (result, rest) = _trace_flat(step, first.unflatten(), *others)
        widened = _map_leaves(_promote, first, result)
        if all(map(_same_dtype, first.leaves, widened.leaves)):
            break
        # The body may depend on types in Python: jnp.floor of an integer leaves no equation. So the
        # body is traced again with the promoted types, as in JAX's loops.
        first = widened
    first = _map_leaves(_cast, first, first)
    return first.unflatten(), TracedStep(closed, jax.tree.structure((result, rest)))


def trace_branches(branches: Branches, *others: Any) -> tuple[list[Step], list[Any]]:
    """Trace the branches of a conditional, promoting their results to common types.

    Args:
        branches: the arguments of the conditional. Each of its functions takes ``others`` and
            returns a pair: the branch's result, and other results, which are not promoted.
        others: example arguments, arrays.

    Returns:
        the traced branches, which take ``others`` and return such pairs, with results of the same
        types; and for each branch the types of its other results. A branch's result is None if the
        results have no leaves and different structures, as for branches that apply gates only.

    Raises:
        TypeError: if structures or shapes of the results differ.
    """
    names = branches.names
    traced = [_trace_flat(branch, *others) for branch in branches.functions]
    results = [types[0] for _, types in traced]
    # Quantum functions of PennyLane return varying empty values, such as an empty list.
    are_gates = not jax.tree.leaves(results) and len({result.tree for result in results}) > 1
    if are_gates:
        results = [FlatTree.flatten(None)] * len(results)
    for name, result in zip(names, results, strict=True):
        check_same_structure(
            branches.construct, f"{names[0]} has", results[0], f"{name} returns", result
        )
    common = _map_leaves(_promote_types, *results)

    def runner(closed: ClosedJaxpr, out_tree: PyTreeDef) -> Step:
        """Make a function that evaluates a branch's jaxpr, with a result of the common types.

        Args:
            closed: jaxpr of the branch.
            out_tree: structure of the pair that the branch returns.
        """

        def run(*others: Any) -> tuple[Any, Any]:
            """Evaluate the branch; return its result in the common types, and other results."""
            leaves = eval_jaxpr(closed.jaxpr, closed.consts, *jax.tree.leaves(others))
            result, rest = jax.tree.unflatten(out_tree, leaves)
            return None if are_gates else _map_leaves(_cast, result, common).unflatten(), rest

        return run

    runners = [runner(closed, jax.tree.structure(types)) for closed, types in traced]
    return runners, [types[1] for _, types in traced]


def run_branch(
    construct: str, index: Any, names: Sequence[str], branches: Sequence[Callable[[], Any]]
) -> Any:
    """Select a branch by a traced index, and run only this branch; return its result.

    Outside of circuits, ``jax.vmap`` over the index runs all branches and selects results; circuits
    are batched one by one, so their conditionals stay conditionals.

    Args:
        construct: name of the construct, such as ``cond``, for errors.
        index: index of the branch, a traced integer scalar.
        names: descriptions of the branches, for errors.
        branches: functions without arguments, which may apply gates inside of a circuit.

    Raises:
        TypeError: if structures or shapes of the branches' results differ.
    """

    def check_result(name: str, branch: Callable[[], Any]) -> Callable[[], Any]:
        """Wrap a branch to convert its result to arrays, as `classical_result` does.

        The wrapper has the name of the user's function, which JAX's errors show.

        Args:
            name: description of the branch, for errors.
            branch: function without arguments, such as a partial of the user's function.
        """
        return set_function_name(
            getattr(branch, "func", branch),
            lambda: classical_result(construct, name, branch()),
        )

    checked = [check_result(name, branch) for name, branch in zip(names, branches, strict=True)]
    circuit = current_gate_recorder()
    run = run_chosen_branch if circuit is None else circuit.branch
    return run(Branches(construct, index, names, checked))


def run_chosen_branch(branches: Branches) -> Any:
    """Trace a conditional outside of circuits as ``lax.switch``; return its result.

    Args:
        branches: the arguments of the conditional, whose functions take no arguments.
    """
    runners, _ = trace_branches(branches.map_functions(lambda branch: lambda: (branch(), ())))
    return jax.lax.switch(branches.index, runners)[0]


def _trace_flat(step: Step, *args: Any) -> tuple[ClosedJaxpr, tuple[FlatTree, Any]]:
    """Trace a function that returns a pair of pytrees.

    Args:
        step: the function.
        *args: example arguments, pytrees of arrays.

    Returns:
        the jaxpr; and the types of both results, the first as a ``FlatTree``, the second as a
        pytree.
    """

    def flat(*args: Any) -> tuple[FlatTree, Any]:
        """Call the function; return its first result as a ``FlatTree``."""
        result, rest = step(*args)
        return FlatTree.flatten(result), rest

    # JAX's errors name the user's function, without its parameters, which are others.
    set_function_name(step, flat)
    flat.__signature__ = inspect.signature(flat, follow_wrapped=False)  # type: ignore[attr-defined]
    closed, types = jax.make_jaxpr(flat, return_shape=True)(*args)
    return closed, types


def _to_initial_array(construct: str, name: str, value: object) -> Any:
    """Convert a leaf of a loop's initial carried values to an array.

    Args:
        construct: name of the loop, for errors.
        name: name of the leaf in errors, such as ``"init[0]['a']"``.
        value: the leaf.

    Raises:
        TypeError: if JAX does not accept the leaf.
    """
    try:
        return as_array(value)
    except TypeError:
        raise TypeError(
            f"{construct}: the initial value {name} is a {type(value).__name__}, expected an array "
            "or a number. Use the value in the body as a closure variable."
        ) from None


def _map_leaves(change: Callable[..., Any], first: FlatTree, *others: FlatTree) -> FlatTree:
    """Apply a function to corresponding leaves of trees with the same number of leaves.

    Args:
        change: takes one leaf of each tree.
        first: the first tree, which gives the structure of the result.
        *others: further trees.
    """
    columns = zip(first.leaves, *(other.leaves for other in others), strict=True)
    return first.replace_leaves([change(*column) for column in columns])


def classical_result(construct: str, name: str, result: PyTree) -> Any:
    """Convert the result of a loop body or branch to arrays, with None in place of gates.

    Functions that apply gates often return them; a gate was queued when it was created. Outside of
    circuits an operator is an ordinary pytree.

    Args:
        construct: name of the construct, for errors.
        name: description of the function, for errors.
        result: a pytree of arrays, numbers and gates.

    Returns:
        the pytree with arrays as leaves, and None for gates; None if it consists of gates only.

    Raises:
        TypeError: for a measurement, a value that is neither array, number nor gate, or a
            dictionary whose keys cannot be sorted.
    """
    if "pennylane" in sys.modules:
        import pennylane as qml

        # Outside of circuits an operator is an ordinary pytree.
        has_gates = current_circuit() is not None or qml.QueuingManager.recording()
        gates: Any = (qml.operation.Operator, Gates) if has_gates else ()
        measurements: Any = (qml.measurements.MeasurementProcess,)
    else:
        gates = measurements = ()
    quantum = (*gates, *measurements)

    def check(leaf: object) -> Any:
        """Convert a leaf to an array, or a gate to None; reject all other values."""
        if isinstance(leaf, gates):
            return None
        if isinstance(leaf, measurements):
            raise TypeError(
                f"{construct}: {name} returns the measurement {leaf}, expected arrays and "
                "numbers. Return measurements from the quantum function itself."
            )
        try:
            return as_array(leaf)
        except TypeError:
            raise TypeError(
                f"{construct}: {name} returns a {type(leaf).__name__}, expected arrays and "
                f"numbers{uncalled_function_hint(leaf)}."
            ) from None

    leaves, tree = flatten_sortable(
        f"{construct}: the result of {name}", result, lambda leaf: isinstance(leaf, quantum)
    )
    checked = [check(leaf) for leaf in leaves]
    # A branch may return a tuple of gates.
    is_only_gates = checked and all(leaf is None for leaf in checked)
    return None if is_only_gates else jax.tree.unflatten(tree, checked)


def check_same_structure(
    construct: str,
    first_clause: str,
    first_tree: FlatTree,
    second_clause: str,
    second_tree: FlatTree,
) -> None:
    """Raise an error unless two pytrees have the same structure and shapes.

    Args:
        construct: name of the construct, for errors.
        first_clause: subject and verb for the first tree, such as ``"the loop carries"``; for
            errors.
        first_tree: the first tree, with arrays or types as leaves.
        second_clause: subject and verb for the second tree, such as ``"the body returns"``.
        second_tree: the second tree.

    Raises:
        TypeError: if they differ.
    """
    if first_tree.tree != second_tree.tree:
        first, second = describe_structures(first_tree.tree, second_tree.tree)
        raise TypeError(
            f"{construct}: the structures differ: {first_clause} {first}, and {second_clause} "
            f"{second}. Return the same structure."
        )
    if list(map(jnp.shape, first_tree.leaves)) != list(map(jnp.shape, second_tree.leaves)):
        first, second = map(_format_leaves, (first_tree, second_tree))
        raise TypeError(
            f"{construct}: the shapes differ: {first_clause} {first}, and {second_clause} "
            f"{second}. Return arrays of the same shapes."
        )


def _format_leaves(flat: FlatTree) -> str:
    """Format dtypes and shapes of a tree's leaves for errors, as ``float64[2], int64[]``."""
    return ", ".join(f"{jnp.result_type(x)}{list(jnp.shape(x))}" for x in flat.leaves)


def _promote_types(*leaves: Operand) -> Any:
    """Return the ``ShapeDtypeStruct`` to which JAX promotes arrays of the same shape.

    Args:
        *leaves: arrays, or types with ``shape``, ``dtype`` and ``weak_type``.
    """
    first = leaves[0]
    # Type promotion does not support random keys.
    if all(_same_dtype(first, leaf) for leaf in leaves):
        return jax.ShapeDtypeStruct(first.shape, first.dtype)
    # `jnp.result_type` promotes Python types weakly, but ignores `weak_type` of shapes.
    types = [_PYTHON_TYPES[leaf.dtype.kind] if leaf.weak_type else leaf.dtype for leaf in leaves]
    return jax.ShapeDtypeStruct(first.shape, jnp.result_type(*types))


def _promote(value: object, returned: Any) -> Any:
    """Cast a carried value to the type promoted from its type and the returned type."""
    common = _promote_types(value, returned)
    return value if _same_dtype(value, common) else _cast(value, common)


def _same_dtype(one: Any, other: Any) -> bool:
    """Return whether two arrays, or types with a dtype, have the same dtype."""
    return bool(one.dtype == other.dtype)


def _cast(value: object, like: Any) -> Any:
    """Convert a value to the dtype of `like`, as an array that is not weakly typed.

    If this is the dtype of random keys, the value is returned unchanged.
    """
    if jnp.issubdtype(like.dtype, jax.dtypes.extended):
        return value
    # The result is not weakly typed, as a variable of the program has a fixed type.
    return jax.lax.convert_element_type(value, like.dtype)
