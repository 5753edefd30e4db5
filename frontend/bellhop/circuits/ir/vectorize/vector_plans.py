"""Finds scalars that are computed by equal equations, and computes them as one vector.

For the operands of ``pack e i m q`` in ::

    { lambda ; a:f64[4]. let
        d = mul a[0] 0.1    e = sin d
        h = mul a[1] 0.2    i = sin h
        l = mul a[2] 0.3    m = sin l
        p = mul a[3] 0.4    q = sin p
        r = pack e i m q
      in (r,) }

``Planner.plan([e, i, m, q])`` returns a plan, which evaluates to ::

    { lambda ; a:f64[4]. let f = mul a [0.1 0.2 0.3 0.4]    g = sin f in (g,) }

A plan is a tree, here ``_Alike(sin, [_Alike(mul, [slices, constants])])``, where ``slices`` is a
``_Slices`` of ``a`` and ``constants`` is ``_Constants([0.1 0.2 0.3 0.4])``.  Each equation of the
result is the scalar equation under ``jax.vmap``.  Compilers call this superword-level parallelism
(Larsen and Amarasinghe, 2000).
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
from jax.extend.core import JaxprEqn, Literal
from jax.extend.core.primitives import jit_p

from bellhop.circuits.ir.precision import real_type
from bellhop.circuits.ir.vectorize.elementwise import is_elementwise, unstack_p
from bellhop.circuits.ir.vectorize.stack_scalars import pack
from bellhop.circuits.ir.vectorize.static_gather import pick

# Fewer scalars than this are not vectorized.
FEWEST = 4

# A plan is at most this deep: deeper expressions are cut, and their pieces are planned separately.
_DEPTH = 64

# What ``Planner._kind`` returns for a constant.
_CONSTANT = "constant"

# Returns the value of a variable.
Read = Callable[[Any], Any]


class Plan:
    """How the values of a list of atoms (variables and literals of a jaxpr) become one array.

    Attributes:
        is_mapped: whether the array has a leading axis for the list.  If not, all values are equal,
            and the array is one of them.
    """

    is_mapped = True

    def evaluate(self, read: Read) -> Any:
        """Return the array of values."""
        raise NotImplementedError

    def inputs(self) -> Iterator[Any]:
        """Yield the variables that are read."""
        raise NotImplementedError

    def picked(self, read: Read) -> tuple[Any, np.ndarray]:
        """Return an array, and the flat indices at which it has the values of the list.

        Plans that only move elements need not compute their array for this.
        """
        array = self.evaluate(read)
        return array, np.arange(np.size(array)).reshape(np.shape(array))


@dataclasses.dataclass
class _Same(Plan):
    """All atoms have the same value, that of ``atom``."""

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
    """The atoms are literals."""

    values: np.ndarray

    def evaluate(self, read: Read) -> Any:
        return self.values

    def inputs(self) -> Iterator[Any]:
        return iter(())


@dataclasses.dataclass
class _Scalars(Plan):
    """The atoms have nothing in common, so they are computed one by one and stacked."""

    atoms: Sequence[Any]

    def evaluate(self, read: Read) -> Any:
        values = [jnp.asarray(read(atom), atom.aval.dtype) for atom in self.atoms]
        aval = self.atoms[0].aval
        return pack(values) if aval.dtype == real_type() and not aval.shape else jnp.stack(values)

    def inputs(self) -> Iterator[Any]:
        return (atom for atom in self.atoms if not isinstance(atom, Literal))


@dataclasses.dataclass
class _Alike(Plan):
    """The atoms are results of the same primitive, which is mapped over planned operands."""

    compute: Callable[..., Any]
    operands: Sequence[Plan]
    # If the primitive only reshapes its operand, the shape of its result; else None.
    reshaped: tuple[int, ...] | None = None

    def evaluate(self, read: Read) -> Any:
        axes = [0 if plan.is_mapped else None for plan in self.operands]
        return jax.vmap(self.compute, axes)(*[plan.evaluate(read) for plan in self.operands])

    def picked(self, read: Read) -> tuple[Any, np.ndarray]:
        if self.reshaped is None:
            return super().picked(read)
        array, places = self.operands[0].picked(read)
        return array, places.reshape(len(places), *self.reshaped)

    def inputs(self) -> Iterator[Any]:
        for plan in self.operands:
            yield from plan.inputs()


@dataclasses.dataclass
class _Slices(Plan):
    """The atoms are slices of the same size, which one ``pick`` takes out."""

    array: Plan
    starts: np.ndarray
    sizes: tuple[int, ...]

    def evaluate(self, read: Read) -> Any:
        return pick(*self.picked(read))

    def picked(self, read: Read) -> tuple[Any, np.ndarray]:
        array, places = self.array.picked(read)
        shape = places.shape[self.array.is_mapped :]
        strides = np.array([np.prod(shape[axis + 1 :], dtype=int) for axis in range(len(shape))])
        inside = np.tensordot(np.indices(self.sizes), strides, (0, 0))
        first = self.starts @ strides
        if self.array.is_mapped:
            first = first + np.prod(shape, dtype=int) * np.arange(len(first))
        return array, places.reshape(-1)[first.reshape(-1, *(1 for _ in shape)) + inside]

    def inputs(self) -> Iterator[Any]:
        return self.array.inputs()


@dataclasses.dataclass
class _Joined(Plan):
    """The atoms belong to several plans, whose arrays are concatenated and permuted."""

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
        return pick(joined, np.arange(joined.size).reshape(joined.shape)[self.order])

    def inputs(self) -> Iterator[Any]:
        for part in self.parts:
            yield from part.inputs()


class Planner:
    """Finds values of a jaxpr that are computed by equal equations.

    The depth of a value is the number of equations between it and the inputs.  Only values of the
    same depth are planned together.  They do not depend on each other, so the plan is correct.
    Their operands have a smaller depth, so the plan is finite.

    Args:
        equations: those of the jaxpr.
    """

    def __init__(self, equations: Sequence[Any]) -> None:
        self._equations: dict[Any, Any] = {}
        # For each result of an equation, which result of it that is (``unstack`` has several).
        self._places: dict[Any, int] = {}
        self._depths: dict[Any, int] = {}
        self._plans: dict[tuple[int, ...], tuple[Sequence[Any], Plan]] = {}
        for eqn in equations:
            if is_elementwise(eqn):
                depth = 1 + max((self._depth(atom) for atom in eqn.invars), default=0)
                for place, result in enumerate(eqn.outvars):
                    # Where expressions are cut, depths still go on, so that values of a chain
                    # have different depths.
                    self._depths[result] = depth
                    if depth % _DEPTH:
                        self._equations[result] = eqn
                        self._places[result] = place

    def _depth(self, atom: Any) -> int:
        return 0 if isinstance(atom, Literal) else self._depths.get(atom, 0)

    def plan(self, atoms: Sequence[Any]) -> Plan | None:
        """Return how to compute a list of atoms of the same type as a vector.

        Returns:
            the plan; None if they have nothing in common.
        """
        plan = self._plan(atoms)
        return None if isinstance(plan, _Scalars) else plan

    def _plan(self, atoms: Sequence[Any]) -> Plan:
        key = tuple(map(id, atoms))
        if key not in self._plans:
            # The entry holds the atoms, so that no other object gets one of their ids.
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
            if kind != _CONSTANT and len(members) < FEWEST:
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
        """Return a key, which is equal for atoms that can be computed as one vector."""
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
        if eqn.primitive is unstack_p:
            return self._plan_unstacked(atoms, operands[0], **eqn.params)
        if not any(plan.is_mapped for plan in operands):
            return _Same(first)
        keeps_order = eqn.primitive is lax.squeeze_p or (
            eqn.primitive is lax.reshape_p and eqn.params["dimensions"] is None
        )
        return _Alike(_computation(eqn), operands, first.aval.shape if keeps_order else None)

    def _plan_unstacked(self, atoms: Sequence[Any], array: Plan, axis: int) -> Plan:
        """Return the plan of results of ``unstack``: slices of length one, without their axis."""
        shape = atoms[0].aval.shape
        starts = np.zeros((len(atoms), len(shape) + 1), np.int32)
        starts[:, axis] = [self._places[atom] for atom in atoms]
        slices = _Slices(array, starts, (*shape[:axis], 1, *shape[axis:]))
        return _Alike(lambda slice_: lax.squeeze(slice_, (axis,)), [slices], shape)


def _computation(eqn: JaxprEqn) -> Callable[..., Any]:
    if eqn.primitive is jit_p:
        closed = eqn.params["jaxpr"]
        return lambda *operands: eval_jaxpr(closed.jaxpr, closed.consts, *operands)[0]
    return lambda *operands: eqn.primitive.bind(*operands, **eqn.params)
