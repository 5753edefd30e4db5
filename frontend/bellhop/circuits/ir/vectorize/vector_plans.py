"""Plans that compute scalars of equal equations as one vector.

For the operands of ``pack e i m q`` in ::

    { lambda ; a:f64[4]. let
        d = mul a[0] 0.1    e = sin d
        h = mul a[1] 0.2    i = sin h
        l = mul a[2] 0.3    m = sin l
        p = mul a[3] 0.4    q = sin p
        r = pack e i m q
      in (r,) }

``VectorPlanner.plan([e, i, m, q])`` returns a plan, which evaluates to ::

    { lambda ; a:f64[4]. let f = mul a [0.1 0.2 0.3 0.4]    g = sin f in (g,) }

A plan is a tree, here ``_MappedPlan(sin, [_MappedPlan(mul, [slices, constants])])``, where
``slices`` is a ``_SlicesPlan`` of ``a`` and ``constants`` is ``_ConstantsPlan([0.1 0.2 0.3 0.4])``.
Each equation of the result is the scalar equation under ``jax.vmap``.  Compilers call this
superword-level parallelism (Larsen and Amarasinghe, 2000).
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

from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.vectorize.elementwise import is_elementwise, unstack_p
from bellhop.circuits.ir.vectorize.stack_scalars import stack_scalars
from bellhop.circuits.ir.vectorize.static_gather import gather_static

# Fewer scalars than this are not vectorized.
MIN_VECTOR_SIZE = 4

# Maximum depth of a plan: deeper expressions are cut, and their pieces are planned separately.
_MAX_DEPTH = 64

# The key of constants in ``VectorPlanner._find_key``.
_CONSTANT = "constant"

# Returns the value of a variable.
AtomReader = Callable[[Any], Any]


class VectorPlan:
    """Plan to compute a list of atoms (variables or literals of a jaxpr) as one array.

    `VectorPlanner` makes plans; each subclass is one way to compute the array. Plans form a tree,
    and ``evaluate`` of the root traces the equations.

    Attributes:
        is_mapped: whether the array has a leading axis for the list.  If not, all atoms have the
            same value, which is the array.
    """

    is_mapped = True

    def evaluate(self, read: AtomReader) -> Any:
        """Compute the array of all values; ``read`` returns the value of a variable."""
        raise NotImplementedError

    def iterate_inputs(self) -> Iterator[Any]:
        """Yield the variables that ``evaluate`` reads."""
        raise NotImplementedError

    def find_elements(self, read: AtomReader) -> tuple[Any, np.ndarray]:
        """Find an array whose elements at some indices are the values of this plan.

        This implementation evaluates the plan, and returns the indices of all elements. Plans that
        only rearrange elements override it to return their operand's array, without computing
        anything.

        Args:
            read: returns the value of an atom of the jaxpr.

        Returns:
            the array, and a NumPy integer array of flat indices; ``array.ravel()[indices]`` is the
            result of ``evaluate``.
        """
        array = self.evaluate(read)
        return array, np.arange(np.size(array)).reshape(np.shape(array))


@dataclasses.dataclass
class _SharedValuePlan(VectorPlan):
    """Plan for equal values: all atoms have the value of ``atom``, which is the array."""

    atom: Any
    is_mapped = False

    def evaluate(self, read: AtomReader) -> Any:
        """Return the value that all atoms have; ``read`` returns the value of a variable."""
        if isinstance(self.atom, Literal):
            return np.asarray(self.atom.val, self.atom.aval.dtype)
        return read(self.atom)

    def iterate_inputs(self) -> Iterator[Any]:
        if not isinstance(self.atom, Literal):
            yield self.atom


@dataclasses.dataclass
class _ConstantsPlan(VectorPlan):
    """Plan for literals, whose values are stacked in the array ``values``."""

    values: np.ndarray

    def evaluate(self, read: AtomReader) -> Any:
        """Return the stacked literals; no variable is read."""
        return self.values

    def iterate_inputs(self) -> Iterator[Any]:
        return iter(())


@dataclasses.dataclass
class _ScalarsPlan(VectorPlan):
    """Plan for atoms without common structure: computed one by one, and stacked.

    Attributes:
        atoms: variables of the same type; literals are planned as constants.
    """

    atoms: Sequence[Any]

    def evaluate(self, read: AtomReader) -> Any:
        """Read the value of each atom, and stack the values along a leading axis."""
        values = [jnp.asarray(read(atom), atom.aval.dtype) for atom in self.atoms]
        aval = self.atoms[0].aval
        return (
            stack_scalars(values)
            if aval.dtype == Precision.real_type() and not aval.shape
            else jnp.stack(values)
        )

    def iterate_inputs(self) -> Iterator[Any]:
        return (atom for atom in self.atoms if not isinstance(atom, Literal))


@dataclasses.dataclass
class _MappedPlan(VectorPlan):
    """Plan for results of the same primitive, which is mapped over planned operands.

    Attributes:
        compute: evaluates the primitive for one atom; ``jax.vmap`` maps it.
        operands: the plans of the primitive's operands.
        reshaped: the shape of one result if the primitive only reshapes its operand; else None.
    """

    compute: Callable[..., Any]
    operands: Sequence[VectorPlan]
    # Shape of one result if the primitive only reshapes its operand; else None.
    reshaped: tuple[int, ...] | None = None

    def evaluate(self, read: AtomReader) -> Any:
        """Evaluate the operands' plans, and map the primitive over them by ``jax.vmap``."""
        axes = [0 if plan.is_mapped else None for plan in self.operands]
        return jax.vmap(self.compute, axes)(*[plan.evaluate(read) for plan in self.operands])

    def find_elements(self, read: AtomReader) -> tuple[Any, np.ndarray]:
        """Find an array whose elements at some indices are the values of this plan.

        If the primitive only reshapes its operand (``reshaped`` is not None), this is the operand's
        array, with the operand's indices reshaped to ``[atoms, *reshaped]``; nothing is computed.
        Otherwise it is the evaluated array of this plan, with the indices of all elements.
        """
        if self.reshaped is None:
            return super().find_elements(read)
        array, places = self.operands[0].find_elements(read)
        return array, places.reshape(len(places), *self.reshaped)

    def iterate_inputs(self) -> Iterator[Any]:
        for plan in self.operands:
            yield from plan.iterate_inputs()


@dataclasses.dataclass
class _SlicesPlan(VectorPlan):
    """Plan for slices of the same size, which one ``gather_static`` extracts.

    Attributes:
        array: the plan of the sliced arrays, one array for all slices or one for each.
        starts: integer array ``[atoms, axes]``, the start indices of each slice.
        sizes: the shape of each slice.
    """

    array: VectorPlan
    starts: np.ndarray
    sizes: tuple[int, ...]

    def evaluate(self, read: AtomReader) -> Any:
        """Gather the slices to an array ``[atoms, *sizes]``."""
        return gather_static(*self.find_elements(read))

    def find_elements(self, read: AtomReader) -> tuple[Any, np.ndarray]:
        """Find the array of the sliced operand, and the flat indices of the slices in it.

        Returns:
            the array, and NumPy integers ``[atoms, *sizes]``.
        """
        array, places = self.array.find_elements(read)
        shape = places.shape[self.array.is_mapped :]
        strides = np.array([np.prod(shape[axis + 1 :], dtype=int) for axis in range(len(shape))])
        inside = np.tensordot(np.indices(self.sizes), strides, (0, 0))
        first = self.starts @ strides
        if self.array.is_mapped:
            first = first + np.prod(shape, dtype=int) * np.arange(len(first))
        return array, places.reshape(-1)[first.reshape(-1, *(1 for _ in shape)) + inside]

    def iterate_inputs(self) -> Iterator[Any]:
        return self.array.iterate_inputs()


@dataclasses.dataclass
class _ConcatenatedPlan(VectorPlan):
    """Plan for atoms of several plans, whose arrays are concatenated and permuted.

    Attributes:
        parts: the plans.
        counts: the number of atoms of each plan.
        order: for each atom of the whole list, its index in the concatenation.
    """

    parts: Sequence[VectorPlan]
    counts: Sequence[int]
    order: np.ndarray

    def evaluate(self, read: AtomReader) -> Any:
        """Concatenate the arrays of all parts, and permute them to the order of the atoms.

        The result has a leading axis for the atoms.
        """
        arrays = []
        for part, count in zip(self.parts, self.counts, strict=True):
            array = part.evaluate(read)
            if not part.is_mapped:
                array = jnp.broadcast_to(array, (count, *np.shape(array)))
            arrays.append(array)
        joined = jnp.concatenate(arrays)
        if np.array_equal(self.order, np.arange(len(self.order))):
            return joined
        return gather_static(joined, np.arange(joined.size).reshape(joined.shape)[self.order])

    def iterate_inputs(self) -> Iterator[Any]:
        for part in self.parts:
            yield from part.iterate_inputs()


class VectorPlanner:
    """Plans how to compute many values of a jaxpr by few equations of vectors.

    For instance ``sin(x[0])`` and ``sin(x[1])`` become one ``sin`` of a vector. One object serves
    one jaxpr. A plan begins with inputs of the jaxpr, and with results of equations that are not
    elementwise. The depth of a value is the length of the longest chain of elementwise equations
    that ends in the value. Only values of the same depth are planned together: none depends on
    another, and their operands have a smaller depth, so the plan is finite.

    Args:
        equations: the equations of the jaxpr, in order.
    """

    def __init__(self, equations: Sequence[Any]) -> None:
        self._equations: dict[Any, Any] = {}
        # Index of each variable among its equation's results (``unstack`` has several).
        self._positions: dict[Any, int] = {}
        self._depths: dict[Any, int] = {}
        self._plans: dict[tuple[int, ...], tuple[Sequence[Any], VectorPlan]] = {}
        for eqn in equations:
            if is_elementwise(eqn):
                depth = 1 + max((self._get_depth(atom) for atom in eqn.invars), default=0)
                for place, result in enumerate(eqn.outvars):
                    # Depths are also counted beyond a cut, so that values of a chain have
                    # different depths.
                    self._depths[result] = depth
                    if depth % _MAX_DEPTH:
                        self._equations[result] = eqn
                        self._positions[result] = place

    def _get_depth(self, atom: Any) -> int:
        """Return the length of the longest chain of elementwise equations that computes an atom.

        It is 0 for a literal, an input, or the result of an equation that is not elementwise.
        """
        return 0 if isinstance(atom, Literal) else self._depths.get(atom, 0)

    def plan(self, atoms: Sequence[Any]) -> VectorPlan | None:
        """Plan the computation of a list of atoms as a vector.

        Args:
            atoms: variables and literals of the jaxpr, of the same type.

        Returns:
            the plan; None if the atoms have no common structure, so that they are best computed one
            by one.
        """
        plan = self._get_plan(atoms)
        return None if isinstance(plan, _ScalarsPlan) else plan

    def _get_plan(self, atoms: Sequence[Any]) -> VectorPlan:
        """Return the plan of a list of atoms of the same type from the cache, or make it."""
        key = tuple(map(id, atoms))
        if key not in self._plans:
            # The entry holds the atoms, so that no other object gets one of their ids.
            self._plans[key] = atoms, self._make_plan(atoms)
        return self._plans[key][1]

    def _make_plan(self, atoms: Sequence[Any]) -> VectorPlan:
        """Plan each group of atoms that can be computed together, and concatenate.

        Groups of fewer than `MIN_VECTOR_SIZE` variables are computed as scalars. All atoms have the
        same type.
        """
        if all(atom is atoms[0] for atom in atoms):
            return _SharedValuePlan(atoms[0])
        groups: dict[Hashable, list[int]] = defaultdict(list)
        for position, atom in enumerate(atoms):
            groups[self._find_key(atom)].append(position)
        parts: list[VectorPlan] = []
        places: list[list[int]] = []
        rest: list[int] = []
        for kind, positions in groups.items():
            members = [atoms[position] for position in positions]
            if kind != _CONSTANT and len(members) < MIN_VECTOR_SIZE:
                rest += positions
                continue
            parts.append(
                _SharedValuePlan(atoms[positions[0]])
                if kind is members[0]
                else self._plan_similar_atoms(members)
            )
            places.append(positions)
        if rest:
            rest.sort()
            parts.append(_ScalarsPlan([atoms[position] for position in rest]))
            places.append(rest)
        if len(parts) == 1:
            return parts[0]
        order = np.argsort(np.concatenate(places))
        return _ConcatenatedPlan(parts, [len(positions) for positions in places], order)

    def _find_key(self, atom: Any) -> Hashable:
        """Return a key that is equal for atoms that can be computed as one vector.

        Args:
            atom: a variable or literal. A variable that is an input of the jaxpr, or the result of
                an equation that cannot be merged, is its own key.

        Returns:
            the primitive, its parameters (for a slice, the shape of the result), its operand types
            and the atom's depth; or the atom; or ``_CONSTANT`` for a literal.
        """
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

    def _plan_similar_atoms(self, atoms: Sequence[Any]) -> VectorPlan:
        """Plan the computation of similar atoms as one vector.

        Args:
            atoms: jaxpr variables or literals with equal `_find_key`: all literals, or all results
                of equations with the same primitive, parameters and operand types.

        Returns:
            a plan that computes the vector from planned vectors of the equations' operands.
        """
        first = atoms[0]
        if isinstance(first, Literal):
            values = [np.asarray(atom.val, atom.aval.dtype) for atom in atoms]
            if all(np.array_equal(value, values[0]) for value in values):
                return _SharedValuePlan(first)
            return _ConstantsPlan(np.stack(values))
        equations = [self._equations[atom] for atom in atoms]
        operands = [
            self._get_plan([eqn.invars[i] for eqn in equations])
            for i in range(len(equations[0].invars))
        ]
        eqn = equations[0]
        if eqn.primitive is lax.slice_p:
            starts = np.array([each.params["start_indices"] for each in equations], np.int32)
            return _SlicesPlan(operands[0], starts, first.aval.shape)
        if eqn.primitive is unstack_p:
            return self._plan_unstacked(atoms, operands[0], **eqn.params)
        if not any(plan.is_mapped for plan in operands):
            return _SharedValuePlan(first)
        keeps_order = eqn.primitive is lax.squeeze_p or (
            eqn.primitive is lax.reshape_p and eqn.params["dimensions"] is None
        )
        return _MappedPlan(_make_function(eqn), operands, first.aval.shape if keeps_order else None)

    def _plan_unstacked(self, atoms: Sequence[Any], array: VectorPlan, axis: int) -> VectorPlan:
        """Plan results of ``unstack``: slices of length one with their axis squeezed.

        Args:
            atoms: variables, each a result of an ``unstack`` equation, at any position on the axis.
            array: the plan of the arrays that are unstacked.
            axis: the axis of ``unstack``.
        """
        shape = atoms[0].aval.shape
        starts = np.zeros((len(atoms), len(shape) + 1), np.int32)
        starts[:, axis] = [self._positions[atom] for atom in atoms]
        slices = _SlicesPlan(array, starts, (*shape[:axis], 1, *shape[axis:]))
        return _MappedPlan(lambda slice_: lax.squeeze(slice_, (axis,)), [slices], shape)


def _make_function(eqn: JaxprEqn) -> Callable[..., Any]:
    """Return a function that computes an equation's only result from its operands."""
    if eqn.primitive is jit_p:
        closed = eqn.params["jaxpr"]
        return lambda *operands: eval_jaxpr(closed.jaxpr, closed.consts, *operands)[0]
    return lambda *operands: eqn.primitive.bind(*operands, **eqn.params)
