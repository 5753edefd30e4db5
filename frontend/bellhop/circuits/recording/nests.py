"""Loops in a loop, and gates around them, as one straight run.

In ::

    for_loop(0, 3)(lambda i: (qml.Hadamard(i), for_loop(0, i)(lambda j: qml.CRZ(x * j, [i, j]))))

the length of the inner loop is a traced value, and yet the number of the iteration decides it, as
it decides the wires.  So an iteration of the outer loop is not a loop in the program but a ``Nest``
of pieces, here ``[Hadamard]`` and ``Inner([CRZ])``.  Each is traced once; for all of its
iterations, here (1, 0), (2, 0) and (2, 1), parameters are one vector, and wires are known::

    angles = mul x [0 0 1]
    state = quantum_gates[H on 0, H on 1, CRZ on (1, 0), H on 2, ...] state angles 0 []
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer, eval_jaxpr
from jax.extend.core import ClosedJaxpr

from bellhop._jax.private import dce
from bellhop.base.known_values import known_at
from bellhop.circuits.gates.gate_run import GateRun, RepeatedRun
from bellhop.circuits.recording.iterations import as_vectors
from bellhop.circuits.recording.unrolled import add_iteration, is_short


@dataclass(frozen=True)
class Enclosing:
    """The loop whose body is being traced: the number of the iteration, and how many there are."""

    number: Any
    n_iterations: int

    def lengths(self, n_iterations: Any) -> list[int] | None:
        """Return the length of a loop in the body for each iteration, if it is known and short."""
        numbers = [(number,) for number in range(self.n_iterations)]
        found = known_at(n_iterations, (self.number,), numbers)
        lengths = None if found is None else [max(0, int(length)) for length in found]
        return lengths if lengths is not None and is_short(sum(lengths)) else None

    def may_hold(self, run: "GateRun | RepeatedRun | Inner") -> bool:
        """Tell whether a piece of the body is short enough for a straight run."""
        if not isinstance(run, RepeatedRun):
            return True
        return is_short(self.n_iterations * run.n_iterations * len(run.run.gates))


class Inner:
    """A loop in the body of another, whose number decides the length.

    Args:
        repeated: the gates of an iteration.
        lengths: for each iteration of the outer loop.
        computed: takes the number of an iteration; returns the parameters and wires.
        apply: applies it as a loop of the program, where it can be no piece of a straight run.
    """

    def __init__(
        self,
        repeated: RepeatedRun,
        lengths: Sequence[int],
        computed: Callable[[Any], Any],
        apply: Callable[[], None],
    ) -> None:
        self.repeated = repeated
        self.lengths = lengths
        self.apply = apply
        self._closed = jax.make_jaxpr(lambda number: list(computed(number)))(0)

    def inputs(self) -> list[Any]:
        """Return what the outer loop computes for it."""
        return [const for const in self._closed.consts if isinstance(const, Tracer)]

    def values(self, inputs: Sequence[Any], number: Any) -> list[Any]:
        """Return the parameters and wires of an iteration, of what the outer loop computed."""
        given = iter(inputs)
        consts = [next(given) if isinstance(c, Tracer) else c for c in self._closed.consts]
        return eval_jaxpr(self._closed.jaxpr, consts, number)


class Nest:
    """What an iteration of a loop applies, in order."""

    def __init__(self) -> None:
        self.pieces: list[GateRun | RepeatedRun | Inner] = []

    def take(self, piece: GateRun | RepeatedRun | Inner) -> None:
        """Append a piece."""
        last = self.pieces[-1] if self.pieces else None
        if (
            isinstance(piece, GateRun)
            and isinstance(last, GateRun)
            and piece.derivative is last.derivative
        ):
            last.extend(piece)
        else:
            self.pieces.append(piece)

    def values(self) -> list[list[Any]]:
        """Return what the loop's body computes for each piece."""
        values: list[list[Any]] = []
        for place, piece in enumerate(self.pieces):
            if isinstance(piece, Inner):
                values.append(piece.inputs())
                continue
            repeated = RepeatedRun.once(piece) if isinstance(piece, GateRun) else piece
            self.pieces[place] = repeated
            values.append([repeated.params, repeated.wires])
        return values

    def straight(
        self, values: Callable[[Any], list[list[Any]]], n_iterations: int, qubits: int
    ) -> GateRun | None:
        """Return all iterations as one straight run; None where it is long, or not known.

        Args:
            values: takes the number of an iteration; returns what ``values`` returned there.
            n_iterations: of the outer loop.
            qubits: how many there are.
        """
        placed: list[_Placed] = []
        first = n_gates = 0
        for place, piece in enumerate(self.pieces):
            assert not isinstance(piece, GateRun)
            made = _placed(piece, place, values, n_iterations)
            if made is None:
                return None
            made.first, first = first, first + made.params.size
            n_gates += len(made.at) * made.repeated.n_iterations * len(made.repeated.run.gates)
            placed.append(made)
        derivative = placed[0].repeated.run.derivative
        if not is_short(n_gates) or any(
            made.repeated.run.derivative is not derivative for made in placed
        ):
            return None
        straight = GateRun(derivative)
        order: list[int] = []
        frequencies: list[int] = []
        for iteration in range(n_iterations):
            for made in placed:
                run = made.repeated.run
                for wires, first in made.runs(iteration):
                    if not add_iteration(straight, run, len(order), wires, qubits):
                        return None
                    order += range(first, first + run.n_params)
                    frequencies += run.frequencies
        params = jnp.concatenate([made.params for made in placed])
        # Slots are in the order of execution.
        is_in_order = order == list(range(len(order)))
        straight.take_all(params if is_in_order else params[np.asarray(order)], frequencies)
        return straight


@dataclass
class _Placed:
    """A piece in all iterations.

    Attributes:
        repeated: its gates.
        at: the number of the outer loop's iteration, and of its own, for each time that it runs.
        params: of all these times.
        wires: likewise, one row for each run of its gates.
        first: where its parameters begin.
    """

    repeated: RepeatedRun
    at: list[tuple[int, ...]]
    params: Any
    wires: list[list[int]]
    first: int = 0

    def runs(self, iteration: int) -> list[tuple[list[int], int]]:
        """Return wires and the first parameter of each run of gates in an outer iteration."""
        each, n_params = self.repeated.n_iterations, self.repeated.run.n_params
        return [
            (self.wires[row], self.first + row * n_params)
            for time, (outer, *_) in enumerate(self.at)
            if outer == iteration
            for row in range(time * each, (time + 1) * each)
        ]


def _placed(
    piece: RepeatedRun | Inner,
    place: int,
    values: Callable[[Any], list[list[Any]]],
    n_iterations: int,
) -> _Placed | None:
    """Return a piece in all iterations; None where its wires are not known.

    That is so as well where parameters of an inner loop are computed otherwise than element by
    element, since what the outer loop does for it would be done for each of its iterations.
    """
    at: list[tuple[int, ...]] = [(i,) for i in range(n_iterations)]
    repeated = piece.repeated if isinstance(piece, Inner) else piece
    if isinstance(piece, Inner):
        at = [(i, j) for (i,) in at for j in range(piece.lengths[i])]
    if not is_short(len(at) * repeated.n_iterations * len(repeated.run.gates)):
        return None
    wires: list[np.ndarray] | None = None

    def trace(*numbers: Any) -> Any:
        nonlocal wires
        outer, *inner = numbers
        of_piece = values(outer)[place]
        params, computed = piece.values(of_piece, *inner) if isinstance(piece, Inner) else of_piece
        wires = known_at(computed, numbers, at)
        return params

    n_numbers = 2 if isinstance(piece, Inner) else 1
    closed = jax.make_jaxpr(trace)(*[0] * n_numbers)
    if wires is None:
        return None
    params = jnp.zeros(0, closed.jaxpr.outvars[0].aval.dtype)
    if at and repeated.run.n_params:
        found = _params(closed, np.asarray(at))
        if found is None:
            return None
        params = jnp.ravel(found)
    rows = [row.tolist() for each in wires for row in each.reshape(repeated.n_iterations, -1)]
    return _Placed(repeated, at, params, rows)


def _params(closed: ClosedJaxpr, at: np.ndarray) -> Any:
    closed, _ = dce(closed, [True], [True] * at.shape[1])
    numbers = list(map(jnp.asarray, at.T))
    vectors = as_vectors(closed)
    if vectors is not None:
        return jax.vmap(vectors)(*numbers)[0]
    if len(numbers) > 1:
        return None
    of_iteration = lambda number: eval_jaxpr(closed.jaxpr, closed.consts, number)[0]
    return jax.lax.map(of_iteration, numbers[0])
