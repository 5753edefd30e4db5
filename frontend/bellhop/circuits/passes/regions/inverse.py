"""Invert a circuit: compute its classical values, then apply its gates in any direction.

The inverse of a quantum function computes all its classical values first, including callbacks, and
then applies the inverse gates in reverse order::

    { lambda ; x. let                                  z = mul y 2.0
        y = callback x                  backwards      circuit.apply([adjoint(RY(z))])
        quantum_operations[RX] y         ------->       circuit.apply([adjoint(RX(y))])
        z = mul y 2.0
        quantum_operations[RY] z
      in () }

A loop becomes two loops.  The first has no gates and saves the carried values at the beginning of
each iteration and the results of callbacks.  The second applies the gates, and each iteration
recomputes its values from the saved values.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, JaxprEqn

from bellhop._jax.jaxprs import bind_equation
from bellhop.base.types import Operand, PyTree
from bellhop.circuits.gates.allocation import Allocations
from bellhop.circuits.gates.decompositions import Modifiers
from bellhop.circuits.ir.gate_jaxpr import ForLoop, GateJaxpr, WhileLoop, has_other_effects
from bellhop.circuits.ir.interpreter import GateInterpreter, Interpreter
from bellhop.circuits.passes.regions.control import ControlPass
from bellhop.circuits.passes.regions.region_errors import allocation_error, measurement_error
from bellhop.errors import CompileError
from bellhop.tracing.current_circuit import Branches

# Applies the gates of an equation, or their inverses in reverse order, to an interpreter.
Action = Callable[[Interpreter, bool], None]


class EvaluatedGates(NamedTuple):
    """The result of `evaluate_gates`: a jaxpr's classical values, and actions for its gates.

    No gate has been applied yet; `apply` applies them.

    Attributes:
        results: the values of the jaxpr's outputs.
        saved: the values with which another evaluation of the same jaxpr does not call Python
            again: callback results and the carried values of loops, one entry per equation that has
            any.
        actions: a function ``(interpreter, backwards)`` for each equation with gates, in order. It
            applies the gates or, if ``backwards``, their inverses in reverse order.
    """

    results: Sequence[Any]
    saved: list[Any]
    actions: list[Action]

    def apply(self, interpreter: Interpreter, *, backwards: bool) -> None:
        """Apply the gates, or their inverses in reverse order if ``backwards``."""
        for act in reversed(self.actions) if backwards else self.actions:
            act(interpreter, backwards)


def evaluate_gates(
    closed: ClosedJaxpr, inputs: Sequence[Any], where: str, saved: Sequence[Any] | None = None
) -> EvaluatedGates:
    """Compute the classical values of a jaxpr with gates, without applying the gates.

    Args:
        closed: the jaxpr with gate equations.
        inputs: the values of its inputs.
        where: the QNode's name and line, which begin error messages.
        saved: `EvaluatedGates.saved` of an earlier evaluation of the same jaxpr, so that its
            callbacks are not called again; None for the first evaluation.

    Returns:
        the values and gates, whose ``apply`` applies the gates forward or backwards.

    Raises:
        CompileError: for a mid-circuit measurement or an allocation of wires in the jaxpr.
    """
    return _GateEvaluator(where, None if saved is None else iter(saved)).evaluate_jaxpr(
        closed, inputs
    )


class _UnsavedValue:
    """Placeholder for the result of a callback that must not be called again.

    It is used in an evaluation for which no callback results were saved.
    """


_UNSAVED = _UnsavedValue()


@dataclass
class _GateEvaluator(GateInterpreter):
    """Interpreter that implements `evaluate_gates`, for one evaluation of one jaxpr.

    Args:
        where: the QNode's name and line, which begin error messages.
        saved_before: the entries that an earlier evaluation saved, in order; None for the first
            evaluation.
        saved: the entries of this evaluation so far.
        actions: for each equation with gates so far, the function that applies them.
    """

    where: str
    saved_before: Iterator[Any] | None
    saved: list[Any] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)

    def evaluate_jaxpr(self, closed: ClosedJaxpr, inputs: Sequence[Any]) -> EvaluatedGates:
        """Interpret a jaxpr; return its results, saved entries and actions."""
        return EvaluatedGates(self.interpret(closed, *inputs), self.saved, self.actions)

    def _interpret_classical(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        """Evaluate an equation without gates; call a callback in the first evaluation only."""
        return (self._evaluate_call if eqn.effects else self._evaluate_value)(eqn, *operands)

    def _save(self, make: Callable[[Any], Any]) -> Any:
        """Return an equation's saved values, of an earlier evaluation or computed now.

        The values are also appended to ``self.saved``. In a later evaluation, they are the values
        that the earlier evaluation saved.

        Args:
            make: ``saved -> values``, evaluates the equation. The argument is None in the first
                evaluation. ``make`` is called again only if the earlier evaluation saved None: with
                `NOTHING_SAVED`, so that callbacks are not called, and their results are missing.
        """
        if self.saved_before is None:
            kept = make(None)
        else:
            kept = next(self.saved_before)
            kept = make(NOTHING_SAVED) if kept is None else kept
        self.saved.append(kept)
        return kept

    def _evaluate_value(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        """Evaluate an equation without effects; return `_UNSAVED` values if an operand is one."""
        if any(operand is _UNSAVED for operand in operands):
            return [_UNSAVED] * len(eqn.outvars)
        return super()._interpret_classical(eqn, *operands)

    def _evaluate_call(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        """Call a callback in the first evaluation; later return its saved results.

        Other equations with effects are treated like callbacks.

        Returns:
            the equation's results; in a later evaluation the saved results, or `_UNSAVED` for each
            result if the earlier evaluation did not save them.

        Raises:
            CompileError: if an operand is `_UNSAVED`.
        """
        lost = [_UNSAVED] * len(eqn.outvars)
        call = lambda: list(bind_equation(eqn, *self._require_saved(operands)))
        results = call() if self.saved_before is None else next(self.saved_before)
        self.saved.append(results)
        return lost if results is None else results

    def _interpret_operations(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        """Append an action that applies the equation's operations or their inverses.

        An action is a function that applies gates forward or backwards, see `EvaluatedGates`.

        The equation has no results, so the list is empty.

        Raises:
            CompileError: if an operation allocates wires, or an operand was not saved.
        """
        queued = eqn.params["operator"].with_values(self._require_saved(operands))
        allocating = next(filter(Allocations.is_allocation, queued), None)
        if allocating is not None:
            raise allocation_error(self.where, allocating)

        def act(interpreter: Interpreter, backwards: bool) -> None:
            """Apply the equation's operations; if ``backwards``, their adjoints in reverse."""
            operations, sites = list(queued), list(eqn.params["sites"])
            if backwards:
                operations, sites = Modifiers.invert_sequence(operations), sites[::-1]
            interpreter.apply_at_sites(operations, sites)

        self.actions.append(act)
        return []

    def _interpret_outcome(self, eqn: JaxprEqn, *_: object) -> NoReturn:
        """Raise an error: adjoint and controlled functions must not measure mid-circuit."""
        raise measurement_error(self.where, eqn.params["site"])

    def _require_saved(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return operands unchanged; raise an error if one of them is `_UNSAVED`.

        `_UNSAVED` replaces a callback's result in a loop iteration that is recomputed, as the
        callback must not be called again.

        Raises:
            CompileError: if an operand is `_UNSAVED`.
        """
        if any(value is _UNSAVED for value in values):
            raise CompileError(
                f"{self.where}: gates in the adjoint of a loop with a dynamic trip count use the "
                "result of a call with side effects, which the adjoint would repeat. Move the "
                "call out of the loop, or use a static trip count."
            )
        return values

    def _interpret_region(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        """Evaluate an adjoint or controlled function, and append an action for its gates.

        An action is a function that applies gates forward or backwards, see `EvaluatedGates`.

        The equation has no results, so the list is empty.
        """
        gates, controls = GateJaxpr.from_region(eqn, self._require_saved(operands))
        inner: list[EvaluatedGates] = []

        def make(kept: Any) -> list[Any]:
            """Evaluate the function, given the values saved before; return its saved values."""
            inner.append(evaluate_gates(gates.closed, gates.operands, self.where, kept))
            return inner[-1].saved

        kept = self._save(make)
        if not inner:
            make(kept)
        [evaluated] = inner

        def act(interpreter: Interpreter, backwards: bool) -> None:
            """Apply the gates of the adjoint or controlled function.

            If ``backwards``, apply the inverse: for an adjoint, the function's gates in forward
            order.
            """
            if controls is None:
                evaluated.apply(interpreter, backwards=not backwards)
            else:
                evaluated.apply(ControlPass(interpreter, *controls), backwards=backwards)

        self.actions.append(act)
        return []

    def _interpret_cond(self, eqn: JaxprEqn, *given: Any) -> Sequence[Any]:
        """Evaluate a conditional's classical part; append an action for its gates.

        An action is a function that applies gates forward or backwards, see `EvaluatedGates`.

        If the conditional has no results and no effects, only the action evaluates it.

        Args:
            eqn: JAX's ``cond`` equation, whose branches have gates.
            given: the index of the branch that runs, and the operands of the branches.

        Returns:
            the results of the chosen branch.
        """
        index, *operands = self._require_saved(given)
        branches = eqn.params["branches"]

        def run(number: int, kept: Any) -> EvaluatedGates:
            """Evaluate a branch without applying its gates.

            Args:
                number: the index of the branch.
                kept: for each branch, the values saved by an earlier evaluation; None in the first.
            """
            kept_of_branch = None if kept is None else kept[number]
            evaluated = evaluate_gates(branches[number], operands, self.where, kept_of_branch)
            self._require_saved(evaluated.results)
            return evaluated

        def make(kept: Any) -> Any:
            """Evaluate the chosen branch; return its results and the values to save."""
            return _switch_branches(index, [partial(run, n, kept) for n in range(len(branches))])

        kept = None
        results: Sequence[Any] = ()
        if has_other_effects(eqn) or eqn.outvars:
            results, kept = self._save(make)

        def act(interpreter: Interpreter, backwards: bool) -> None:
            """Apply the conditional with its gates, or with the inverse of each branch.

            Each branch recomputes its classical values from the saved values.
            """

            def apply_branch(number: int) -> None:
                run(number, kept).apply(interpreter, backwards=backwards)

            parts = [partial(apply_branch, number) for number in range(len(branches))]
            interpreter.branch(Branches("cond", index, [""] * len(parts), parts))

        self.actions.append(act)
        return results

    def _interpret_for_loop(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        """Run the classical part of a for loop, and append an action for its gates.

        An action is a function that applies gates forward or backwards, see `EvaluatedGates`.

        With a static trip count, `jax.lax.scan` saves the carried values of each iteration. With a
        dynamic trip count their array would have no static shape, so each iteration of the loop
        with gates recomputes them from the first iteration on. A loop without carried values
        and effects is run by the action only.

        Returns:
            the carried values after the loop.
        """
        loop = ForLoop.from_equation(eqn, self._require_saved(operands))

        def run(number: Any, carried: Sequence[Any], kept: Any = None) -> EvaluatedGates:
            """Evaluate one iteration without gates, from its index and carried values."""
            inputs = [*loop.constants, number, *carried]
            return evaluate_gates(loop.body, inputs, self.where, kept)

        def scan_step(carried: PyTree, number: Any, kept: Any) -> Any:
            """Run one iteration for ``scan``: the next carried values, and the values to save."""
            results, made, _ = run(number, carried, kept)
            return tuple(self._require_saved(results)), (carried, made)

        if not (has_other_effects(eqn) or eqn.outvars):
            evaluate_iteration: Any = lambda number: run(number, ())
            results: Sequence[Any] = ()
        elif isinstance(loop.length, int):
            results, begins = self._save(
                lambda kept: jax.lax.scan(
                    lambda carried, number: scan_step(carried, number, kept),
                    loop.carried,
                    ForLoop.make_indices(loop.length),
                )
            )
            evaluate_iteration = lambda number: run(
                number, *jax.tree.map(lambda every: every[number], begins)
            )
        else:
            results = self._save(
                lambda kept: jax.lax.fori_loop(
                    0, loop.length, lambda i, carried: scan_step(carried, i, kept)[0], loop.carried
                )
            )
            again = self._make_recompute(
                lambda number, carried: run(number, carried, NOTHING_SAVED)
            )
            evaluate_iteration = lambda number: run(
                number, again(number, loop.carried), NOTHING_SAVED
            )
        self._add_loop_action(loop.length, evaluate_iteration, can_unroll=loop.can_unroll)
        return results

    def _interpret_while_loop(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        """Run the classical part of a while loop, and append an action for its gates.

        An action is a function that applies gates forward or backwards, see `EvaluatedGates`.

        The classical part also counts the iterations. The action applies the gates in a for loop
        with this trip count, so that it can run backwards; each iteration recomputes its carried
        values from the first iteration on.

        Returns:
            the carried values after the loop.
        """
        loop = WhileLoop.from_equation(eqn, self._require_saved(operands))

        def run(carried: Sequence[Any], kept: Any = None) -> EvaluatedGates:
            """Evaluate one iteration without gates, from its carried values."""
            return evaluate_gates(loop.body, [*loop.constants, *carried], self.where, kept)

        length, results = self._save(
            lambda kept: jax.lax.while_loop(
                lambda state: loop.condition(state[1]),
                lambda state: (
                    state[0] + 1,
                    tuple(self._require_saved(run(state[1], kept).results)),
                ),
                (jnp.asarray(0), loop.carried),
            )
        )
        again = self._make_recompute(lambda _, carried: run(carried, NOTHING_SAVED))
        self._add_loop_action(length, lambda n: run(again(n, loop.carried), NOTHING_SAVED))
        return results

    def _make_recompute(self, run: Callable[..., EvaluatedGates]) -> Callable[..., Any]:
        """Return a function that recomputes a loop's carried values before an iteration.

        Args:
            run: ``(index, carried) -> EvaluatedGates``, evaluates one iteration without gates.

        Returns:
            a function ``(index, first carried values) -> carried values`` before the iteration with
            this index. It runs all earlier iterations without their gates and callbacks, and raises
            a CompileError if a carried value depends on a callback.
        """

        def recompute_carried(number: Any, first: tuple[Any, ...]) -> tuple[Any, ...]:
            """Return the carried values before an iteration, by running earlier iterations.

            Args:
                number: the index of an iteration.
                first: the carried values of the first iteration.
            """
            if not first:
                return ()
            step = lambda i, carried: tuple(self._require_saved(run(i, carried).results))
            return jax.lax.fori_loop(0, number, step, first)

        return recompute_carried

    def _add_loop_action(
        self,
        length: Any,
        evaluate_iteration: Callable[[Any], EvaluatedGates],
        *,
        can_unroll: bool = False,
    ) -> None:
        """Append an action that applies a loop with gates, forward or backwards.

        An action is a function that applies gates forward or backwards, see `EvaluatedGates`.

        Args:
            length: the trip count, an ``int`` or a tracer.
            evaluate_iteration: maps the index of an iteration to its recomputed values and its
                gates.
            can_unroll: whether the loop may be unrolled, as in `Interpreter.for_loop`.
        """

        def act(interpreter: Interpreter, backwards: bool) -> None:
            """Apply the loop; if ``backwards``, with iterations and gates in reverse order."""

            def run_iteration(_: tuple[()], iteration: Any) -> tuple[()]:
                """Apply the gates of one iteration."""
                number = length - 1 - iteration if backwards else iteration
                evaluate_iteration(number).apply(interpreter, backwards=backwards)
                return ()

            interpreter.for_loop(length, run_iteration, (), can_unroll=can_unroll)

        self.actions.append(act)


def _switch_branches(index: Any, functions: Sequence[Callable[[], EvaluatedGates]]) -> Any:
    """Add a conditional that evaluates one of several branches without applying gates.

    Args:
        index: the traced index of the branch to evaluate.
        functions: for each branch, a function that evaluates it.

    Returns:
        the results of the branch; and for every branch its ``EvaluatedGates.saved``, which is zeros
        for branches that do not run, so that all branches return the same types.
    """
    parts = [lambda function=function: tuple(function()[:2]) for function in functions]
    traced = [jax.make_jaxpr(part, return_shape=True)() for part in parts]

    def runner(number: int) -> Callable[[], Any]:
        """Make the function of one branch for ``jax.lax.switch``.

        Args:
            number: the index of the branch.

        Returns:
            a function without arguments that returns the branch's results, and the saved values of
            all branches: zeros for branches other than this one.
        """

        def run() -> Any:
            """Evaluate the traced branch; return its results and all saved values."""
            closed, shapes = traced[number]
            leaves = eval_jaxpr(closed.jaxpr, closed.consts)
            results, kept = jax.tree.unflatten(jax.tree.structure(shapes), leaves)
            every = [
                kept if n == number else jax.tree.map(_make_zeros, shapes[1])
                for n, (_, shapes) in enumerate(traced)
            ]
            return results, every

        return run

    return jax.lax.switch(index, list(map(runner, range(len(functions)))))


def _make_zeros(like: Any) -> Any:
    return jnp.zeros(like.shape, like.dtype)


class _NothingSaved:
    """A replacement for ``EvaluatedGates.saved`` in which every equation saved None.

    It is used for iterations of a loop with a dynamic trip count: their values are not saved,
    because an array over all iterations has no static shape. Iterating over the object gives None
    without end. Indexing it, as for the saved values of one branch, gives the object itself.
    """

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None

    def __getitem__(self, _: Any) -> "_NothingSaved":
        return self


NOTHING_SAVED: Any = _NothingSaved()
