"""What is computed alike, and how to compute it as one array.

This is the vectorisation of straight-line code by superwords (Larsen and Amarasinghe, 2000).
What a vectorised equation does for each element is left to the equation's own batching rule.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import eval_jaxpr
from jax.extend.core import Literal
from jax.extend.core.primitives import jit_p

from bellhop.circuits.precision import real_type
from bellhop.circuits.vectorize.elementwise import is_elementwise
from bellhop.circuits.vectorize.pack import pack

# Fewer scalars than this are not worth a vector.
_FEWEST = 4

# An expression is cut into pieces of this depth, each of which is vectorised by itself.
_DEPTH = 64

# What constants have in common.
_CONSTANT = "constant"

# Gives the value of a variable.
Read = Callable[[Any], Any]


class Plan:
    """How the values of a list of atoms are computed, with an axis for the list in front.

    Attributes:
        is_mapped: whether it has that axis; without it all values are the same.
    """

    is_mapped = True

    def evaluate(self, read: Read) -> Any:
        """Return the values."""
        raise NotImplementedError

    def inputs(self) -> Iterator[Any]:
        """Yield the variables that are read."""
        raise NotImplementedError


@dataclasses.dataclass
class _Same(Plan):
    """One value for all."""

    atom: Any
    is_mapped = False

    def evaluate(self, read: Read) -> Any:
        if isinstance(self.atom, Literal):
            return np.asarray(self.atom.val, self.atom.aval.dtype)
        return read(self.atom)

    def inputs(self) -> Iterator[Any]:
        if not isinstance(self.atom, Literal):
            yield self.atom


@dataclasses.dataclass
class _Constants(Plan):
    """Constants of the program."""

    values: np.ndarray

    def evaluate(self, read: Read) -> Any:
        return self.values

    def inputs(self) -> Iterator[Any]:
        return iter(())


@dataclasses.dataclass
class _Scalars(Plan):
    """Values that have nothing in common."""

    atoms: Sequence[Any]

    def evaluate(self, read: Read) -> Any:
        values = [jnp.asarray(read(atom), atom.aval.dtype) for atom in self.atoms]
        aval = self.atoms[0].aval
        return pack(values) if aval.dtype == real_type() and not aval.shape else jnp.stack(values)

    def inputs(self) -> Iterator[Any]:
        return (atom for atom in self.atoms if not isinstance(atom, Literal))


@dataclasses.dataclass
class _Alike(Plan):
    """Results of the same computation of other operands."""

    compute: Callable[..., Any]
    operands: Sequence[Plan]

    def evaluate(self, read: Read) -> Any:
        axes = [0 if plan.is_mapped else None for plan in self.operands]
        return jax.vmap(self.compute, axes)(*[plan.evaluate(read) for plan in self.operands])

    def inputs(self) -> Iterator[Any]:
        for plan in self.operands:
            yield from plan.inputs()


@dataclasses.dataclass
class _Slices(Plan):
    """Slices of one size at other places."""

    array: Plan
    starts: np.ndarray
    sizes: tuple[int, ...]

    def evaluate(self, read: Read) -> Any:
        array = self.array.evaluate(read)
        count, rank = self.starts.shape
        if not self.array.is_mapped and rank == 1 and self.sizes == (1,):
            first = int(self.starts[0, 0])
            if np.array_equal(self.starts[:, 0], np.arange(first, first + count)):
                return lax.slice(array, (first,), (first + count,))[:, None]

        if not self.array.is_mapped:
            return _gather(array, self.starts, self.sizes, ())

        def pick(array: Any, starts: Any) -> Any:
            return lax.dynamic_slice(array, tuple(starts[i] for i in range(rank)), self.sizes)

        return jax.vmap(pick)(array, self.starts)

    def inputs(self) -> Iterator[Any]:
        return self.array.inputs()


@dataclasses.dataclass
class _Joined(Plan):
    """Lists one after another, brought into order."""

    parts: Sequence[Plan]
    counts: Sequence[int]
    order: np.ndarray

    def evaluate(self, read: Read) -> Any:
        arrays = []
        for part, count in zip(self.parts, self.counts, strict=True):
            array = part.evaluate(read)
            if not part.is_mapped:
                array = jnp.broadcast_to(array, (count, *np.shape(array)))
            arrays.append(array)
        joined = jnp.concatenate(arrays)
        if np.array_equal(self.order, np.arange(len(self.order))):
            return joined
        return _gather(joined, self.order[:, None], (1, *joined.shape[1:]), (0,))

    def inputs(self) -> Iterator[Any]:
        for part in self.parts:
            yield from part.inputs()


def _gather(
    array: Any, starts: np.ndarray, sizes: tuple[int, ...], dropped: tuple[int, ...]
) -> Any:
    """Return slices of an array, without some of their axes."""
    dimensions = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(1, 1 + len(sizes) - len(dropped))),
        collapsed_slice_dims=dropped,
        start_index_map=tuple(range(starts.shape[1])),
    )
    return lax.gather(
        array,
        starts.astype(np.int32),
        dimensions,
        sizes,
        mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )


class Planner:
    """Finds out what of a jaxpr is computed alike.

    Values of one depth do not depend on each other, and operands are of less depth, so a plan
    is right and comes to an end.
    """

    def __init__(self, equations: Sequence[Any]) -> None:
        self._equations: dict[Any, Any] = {}
        self._depths: dict[Any, int] = {}
        self._plans: dict[tuple[int, ...], tuple[Sequence[Any], Plan]] = {}
        for eqn in equations:
            if is_elementwise(eqn):
                depth = 1 + max((self._depth(atom) for atom in eqn.invars), default=0)
                # Not counted anew in each piece: values of a chain are not of one depth.
                self._depths[eqn.outvars[0]] = depth
                if depth % _DEPTH:
                    self._equations[eqn.outvars[0]] = eqn

    def _depth(self, atom: Any) -> int:
        return 0 if isinstance(atom, Literal) else self._depths.get(atom, 0)

    def plan(self, atoms: Sequence[Any]) -> Plan | None:
        """Return how to compute a list of values of one type as vectors.

        Returns:
            None where they are few, or have nothing in common.
        """
        if len(atoms) < _FEWEST:
            return None
        plan = self._plan(atoms)
        return None if isinstance(plan, _Scalars) else plan

    def _plan(self, atoms: Sequence[Any]) -> Plan:
        key = tuple(map(id, atoms))
        if key not in self._plans:
            # With the atoms, so that none of them goes and leaves its id to another.
            self._plans[key] = atoms, self._new_plan(atoms)
        return self._plans[key][1]

    def _new_plan(self, atoms: Sequence[Any]) -> Plan:
        if all(atom is atoms[0] for atom in atoms):
            return _Same(atoms[0])
        groups: dict[Hashable, list[int]] = defaultdict(list)
        for position, atom in enumerate(atoms):
            groups[self._kind(atom)].append(position)
        parts: list[Plan] = []
        places: list[list[int]] = []
        rest: list[int] = []
        for kind, positions in groups.items():
            members = [atoms[position] for position in positions]
            if kind != _CONSTANT and len(members) < _FEWEST:
                rest += positions
                continue
            parts.append(
                _Same(atoms[positions[0]]) if kind is members[0] else self._plan_alike(members)
            )
            places.append(positions)
        if rest:
            rest.sort()
            parts.append(_Scalars([atoms[position] for position in rest]))
            places.append(rest)
        if len(parts) == 1:
            return parts[0]
        order = np.argsort(np.concatenate(places))
        return _Joined(parts, [len(positions) for positions in places], order)

    def _kind(self, atom: Any) -> Hashable:
        """Return what atoms that are computed alike have in common."""
        if isinstance(atom, Literal):
            return _CONSTANT
        eqn = self._equations.get(atom)
        if eqn is None:
            return atom
        types = tuple((each.aval.shape, each.aval.dtype) for each in eqn.invars)
        if eqn.primitive is lax.slice_p:
            params: Hashable = atom.aval.shape
        elif eqn.primitive is jit_p:
            params = id(eqn.params["jaxpr"])
        else:
            params = tuple(eqn.params.items())
        return eqn.primitive, params, types, self._depths[atom]

    def _plan_alike(self, atoms: Sequence[Any]) -> Plan:
        first = atoms[0]
        if isinstance(first, Literal):
            values = [np.asarray(atom.val, atom.aval.dtype) for atom in atoms]
            if all(np.array_equal(value, values[0]) for value in values):
                return _Same(first)
            return _Constants(np.stack(values))
        equations = [self._equations[atom] for atom in atoms]
        operands = [
            self._plan([eqn.invars[i] for eqn in equations])
            for i in range(len(equations[0].invars))
        ]
        eqn = equations[0]
        if eqn.primitive is lax.slice_p:
            starts = np.array([each.params["start_indices"] for each in equations], np.int32)
            return _Slices(operands[0], starts, first.aval.shape)
        if not any(plan.is_mapped for plan in operands):
            return _Same(first)
        return _Alike(_computation(eqn), operands)


def _computation(eqn: Any) -> Callable[..., Any]:
    if eqn.primitive is jit_p:
        closed = eqn.params["jaxpr"]
        return lambda *operands: eval_jaxpr(closed.jaxpr, closed.consts, *operands)[0]
    return lambda *operands: eqn.primitive.bind(*operands, **eqn.params)
