"""The values of a jaxpr with gates, computed before any gate is applied: for adjoints.

Backwards, all values come first, with the calls of Python in them, and then the gates, the last one
first::

    { lambda ; x. let                                  z = mul y 2.0
        y = callback x                  backwards      circuit.apply([adjoint(RY(z))])
        quantum_operations[RX] y         ------->       circuit.apply([adjoint(RX(y))])
        z = mul y 2.0
        quantum_operations[RY] z
      in () }

The values of a loop come by a loop without gates, which keeps what each iteration begins with; in
the loop of the gates an iteration computes the rest again, but for what Python has returned.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, JaxprEqn

from bellhop._jax.jaxprs import bind_equation
from bellhop.base.constant_eval import evaluate_or_bind
from bellhop.base.types import Operand, PyTree
from bellhop.circuits.gates.allocation import Allocations
from bellhop.circuits.ir.gate_jaxpr import (
    ForLoop,
    GateInterpreter,
    WhileLoop,
    has_other_effects,
    region_of,
)
from bellhop.errors import CompileError


class Evaluated(NamedTuple):
    """A jaxpr with gates, of which the values are computed and no gates applied.

    Attributes:
        results: of the jaxpr.
        kept: what Python has returned and where loops began, an entry for each equation.
        actions: what applies the gates of each equation; each takes a player, and whether it goes
            backwards.
    """

    results: Sequence[Any]
    kept: list[Any]
    actions: list[Callable[[Any, bool], None]]

    def apply(self, player: Any, *, backwards: bool) -> None:
        """Apply the gates."""
        for act in reversed(self.actions) if backwards else self.actions:
            act(player, backwards)


def evaluate(
    closed: ClosedJaxpr, inputs: Sequence[Any], where: str, kept: Sequence[Any] | None = None
) -> Evaluated:
    """Compute the values of a jaxpr with gates, but apply none.

    Args:
        closed: the jaxpr.
        inputs: its inputs.
        where: the QNode, for errors.
        kept: that of the time before, where this computes the same again.
    """
    return _Evaluation(where, None if kept is None else iter(kept)).of(closed, inputs)


class _Lost:
    """What Python has returned in an iteration of which nothing is kept."""


_LOST = _Lost()


@dataclass
class _Evaluation(GateInterpreter):
    """``evaluate`` under way."""

    where: str
    given: Iterator[Any] | None
    kept: list[Any] = field(default_factory=list)
    actions: list[Callable[[Any, bool], None]] = field(default_factory=list)

    def of(self, closed: ClosedJaxpr, inputs: Sequence[Any]) -> Evaluated:
        return Evaluated(self.interpret(closed, *inputs), self.kept, self.actions)

    def _classical(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        return (self._call if eqn.effects else self._value)(eqn, *operands)

    def _keep(self, make: Callable[[Any], Any]) -> Any:
        """Return what is kept of an equation: made now, or the time before.

        Args:
            make: takes what is kept of equations in it, which is nothing or None.
        """
        if self.given is None:
            kept = make(None)
        else:
            kept = next(self.given)
            kept = make(NOTHING_KEPT) if kept is None else kept
        self.kept.append(kept)
        return kept

    def _value(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        if any(operand is _LOST for operand in operands):
            return [_LOST] * len(eqn.outvars)
        return evaluate_or_bind(eqn, *operands)

    def _call(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        lost = [_LOST] * len(eqn.outvars)
        call = lambda: list(bind_equation(eqn, *self._known(operands)))
        results = call() if self.given is None else next(self.given)
        self.kept.append(results)
        return lost if results is None else results

    def _operations(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        made = eqn.params["operator"].with_values(self._known(operands))
        allocating = next(filter(Allocations.is_allocation, made), None)
        if allocating is not None:
            raise refused_allocation(self.where, allocating)

        def act(player: Any, backwards: bool) -> None:
            operations, sites = list(made), list(eqn.params["sites"])
            if backwards:
                operations, sites = list(map(qml.adjoint, reversed(operations))), sites[::-1]
            for op, site in zip(operations, sites, strict=True):
                player.place(op, site)
            player.apply(operations)

        self.actions.append(act)
        return []

    def _outcome(self, eqn: JaxprEqn, *_: object) -> NoReturn:
        raise refused_measurement(self.where, eqn.params["site"])

    def _known(self, values: Sequence[Any]) -> Sequence[Any]:
        if any(value is _LOST for value in values):
            raise CompileError(
                f"{self.where}: in an adjoint of a loop whose length is computed in the program, "
                "a call with side effects returns what gates or later iterations need. To undo "
                "the loop it would be made again. Take the call out of the loop, or give the loop "
                "a known length."
            )
        return values

    def _region(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        gates, controls = region_of(eqn, self._known(operands))
        inner: list[Evaluated] = []

        def make(kept: Any) -> list[Any]:
            inner.append(evaluate(gates.closed, gates.operands, self.where, kept))
            return inner[-1].kept

        kept = self._keep(make)
        if not inner:
            make(kept)
        [evaluated] = inner

        def act(player: Any, backwards: bool) -> None:
            if controls is None:
                evaluated.apply(player, backwards=not backwards)
            else:
                evaluated.apply(player.controlled(*controls), backwards=backwards)

        self.actions.append(act)
        return []

    def _branch(self, eqn: JaxprEqn, *given: Any) -> Sequence[Any]:
        index, *operands = self._known(given)
        branches = eqn.params["branches"]

        def run(number: int, kept: Any) -> Evaluated:
            of_branch = None if kept is None else kept[number]
            evaluated = evaluate(branches[number], operands, self.where, of_branch)
            self._known(evaluated.results)
            return evaluated

        def make(kept: Any) -> Any:
            return _switch(index, [partial(run, n, kept) for n in range(len(branches))])

        kept = None
        results: Sequence[Any] = ()
        if has_other_effects(eqn) or eqn.outvars:
            results, kept = self._keep(make)

        def act(player: Any, backwards: bool) -> None:
            def part(number: int) -> Callable[[Any], None]:
                return lambda player: run(number, kept).apply(player, backwards=backwards)

            player.branch(index, list(map(part, range(len(branches)))))

        self.actions.append(act)
        return results

    def _for_loop(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        loop = ForLoop.of(eqn, self._known(operands))

        def run(number: Any, carried: Sequence[Any], kept: Any = None) -> Evaluated:
            inputs = [*loop.constants, number, *carried]
            return evaluate(loop.body, inputs, self.where, kept)

        def once(carried: PyTree, number: Any, kept: Any) -> Any:
            results, made, _ = run(number, carried, kept)
            return tuple(self._known(results)), (carried, made)

        if not (has_other_effects(eqn) or eqn.outvars):
            at: Any = lambda number: run(number, ())
            results: Sequence[Any] = ()
        elif isinstance(loop.length, int):
            results, begins = self._keep(
                lambda kept: jax.lax.scan(
                    lambda carried, number: once(carried, number, kept),
                    loop.carried,
                    numbers_of(loop.length),
                )
            )
            at = lambda number: run(number, *jax.tree.map(lambda every: every[number], begins))
        else:
            results = self._keep(
                lambda kept: jax.lax.fori_loop(
                    0, loop.length, lambda i, carried: once(carried, i, kept)[0], loop.carried
                )
            )
            again = self._again(lambda number, carried: run(number, carried, NOTHING_KEPT))
            at = lambda number: run(number, again(number, loop.carried), NOTHING_KEPT)
        self._act_in_loop(loop.length, at, is_nest=loop.is_nest)
        return results

    def _while_loop(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        loop = WhileLoop.of(eqn, self._known(operands))

        def run(carried: Sequence[Any], kept: Any = None) -> Evaluated:
            return evaluate(loop.body, [*loop.constants, *carried], self.where, kept)

        length, results = self._keep(
            lambda kept: jax.lax.while_loop(
                lambda state: loop.goes_on(state[1]),
                lambda state: (state[0] + 1, tuple(self._known(run(state[1], kept).results))),
                (jnp.asarray(0), loop.carried),
            )
        )
        again = self._again(lambda _, carried: run(carried, NOTHING_KEPT))
        self._act_in_loop(length, lambda n: run(again(n, loop.carried), NOTHING_KEPT))
        return results

    def _again(self, run: Callable[..., Evaluated]) -> Callable[..., Any]:
        """Return what computes where an iteration of a loop of unknown length begins."""

        def carried_at(number: Any, first: tuple[Any, ...]) -> tuple[Any, ...]:
            if not first:
                return ()
            step = lambda i, carried: tuple(self._known(run(i, carried).results))
            return jax.lax.fori_loop(0, number, step, first)

        return carried_at

    def _act_in_loop(
        self, length: Any, at: Callable[[Any], Evaluated], *, is_nest: bool = False
    ) -> None:
        """Add what applies the gates of a loop.

        Args:
            length: how many iterations there are.
            at: takes the number of an iteration, and computes its values again.
            is_nest: whether it is a loop of loops of gates.
        """

        def act(player: Any, backwards: bool) -> None:
            def body(player: Any) -> Callable[..., tuple[()]]:
                def run(_: tuple[()], iteration: Any) -> tuple[()]:
                    number = length - 1 - iteration if backwards else iteration
                    at(number).apply(player, backwards=backwards)
                    return ()

                return run

            player.for_loop(length, body, is_nest=is_nest)

        self.actions.append(act)


def refused_allocation(where: str, op: qml.operation.Operator) -> CompileError:
    """Return the error of an allocation whose adjoint would need the same wires again."""
    return CompileError(
        f"{where}: {op.name} of wires stands in an adjoint, ctrl or folding of a "
        "function. Move both outside of it."
    )


def refused_measurement(where: str, site: str) -> CompileError:
    """Return the error of a measurement, which has no adjoint and no controlled form."""
    return CompileError(
        f"{where}: a measure ({site}) stands in an adjoint or ctrl of a function, which "
        "cannot hold measurements. Measure outside of it."
    )


def _switch(index: Any, functions: Sequence[Callable[[], Evaluated]]) -> Any:
    """Evaluate one of several branches; return its results, and what is kept of all of them."""
    parts = [lambda function=function: tuple(function()[:2]) for function in functions]
    traced = [jax.make_jaxpr(part, return_shape=True)() for part in parts]

    def runner(number: int) -> Callable[[], Any]:
        def run() -> Any:
            closed, shapes = traced[number]
            leaves = eval_jaxpr(closed.jaxpr, closed.consts)
            results, kept = jax.tree.unflatten(jax.tree.structure(shapes), leaves)
            every = [
                kept if n == number else jax.tree.map(_zeros, shapes[1])
                for n, (_, shapes) in enumerate(traced)
            ]
            return results, every

        return run

    return jax.lax.switch(index, list(map(runner, range(len(functions)))))


def _zeros(like: Any) -> Any:
    return jnp.zeros(like.shape, like.dtype)


class _NothingKept:
    """What is kept where an array of it would have no static shape: nothing, of any equation."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None

    def __getitem__(self, _: Any) -> "_NothingKept":
        return self


NOTHING_KEPT: Any = _NothingKept()


# The numbers of more iterations are no constant of the program.
_MOST_IN_A_CONSTANT = 64


def numbers_of(n_iterations: int) -> Any:
    """Return the numbers of iterations, for ``jax.lax.scan``.

    XLA makes a kernel that fills an array of them.  A short one is a constant instead.
    """
    return (np if n_iterations <= _MOST_IN_A_CONSTANT else jnp).arange(n_iterations)
