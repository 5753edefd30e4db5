"""Operations of PennyLane's as parameters of equations: apart from what is traced in them.

``qml.ctrl(qml.RX(2 * x, i), control=0)`` holds two tracers, of which one stands deep inside.  So
``TracedOperator.partition`` goes through what an operation is made of::

    make: values -> ctrl(RX(values[0], wires=values[1]), control=0)    operands: 2 * x, i

and ``with_values`` makes it again with other values in the place of these.  No value is taken out
of a function that an operation holds, such as the ``block`` of ``qml.TTN``.  Where one uses what is
traced, it has to be called in the same trace: ``decompose_traced_functions`` takes the operation
apart.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any

import jax
import numpy as np
import pennylane as qml

from bellhop._jax.private import hold_weakly_in_caches
from bellhop.circuits.gates.concretization_errors import explain_concretization
from bellhop.circuits.gates.decompositions import (
    MAX_DECOMPOSITION_DEPTH,
    add_modifiers,
    decompose,
    strip_modifiers,
)

# Takes the values of operands, and what was made so far, by what makes it.
_Constructor = Callable[[Sequence[Any], dict[Any, Any]], Any]


class TracedOperator:
    """Objects of PennyLane's without the values that are traced.

    Args:
        name: for those who read the jaxpr.
        make: makes them.
        is_closed: whether no function in them uses what is traced.

    Attributes:
        is_closed: the same.
    """

    def __init__(self, name: str, make: _Constructor, *, is_closed: bool) -> None:
        self._name = name
        self._make = make
        self.is_closed = is_closed

    @classmethod
    def partition(
        cls, objects: Any, leaf_type: type = jax.core.Tracer
    ) -> tuple["TracedOperator", list[Any]]:
        """Return objects without what is traced, and that.

        Args:
            objects: operations, measurements or wires: one, or tuples of such.
            leaf_type: the type of what is taken out, if that is not what is traced alone.
        """
        parts = _OperandCollector(leaf_type)
        make = parts.find_constructor(objects) or (lambda *_: objects)
        is_closed = not any(map(_has_traced_reference, parts.functions))
        return cls(_describe(objects), make, is_closed=is_closed), parts.operands

    def with_values(self, values: Sequence[Any]) -> Any:
        """Return the objects with values in the place of what was traced.

        What had nothing traced in it is the same object.
        """
        # Wires are hashable: numbers, not arrays of NumPy's.
        scalars = [value[()] if isinstance(value, np.ndarray) else value for value in values]
        return self._make(scalars, {})

    def __repr__(self) -> str:
        return self._name


hold_weakly_in_caches(TracedOperator)


def decompose_traced_functions(
    op: qml.operation.Operator, where: str, depth: int = 0
) -> Iterator[Any]:
    """Yield an operation, taken apart as long as a function in it uses what is traced.

    Args:
        op: the operation.
        where: the QNode, for errors.
        depth: how many decompositions it comes of.
    """
    base, adjoint, controls = strip_modifiers(op, ())
    parts = None
    if depth < MAX_DECOMPOSITION_DEPTH and not TracedOperator.partition(base)[0].is_closed:
        with explain_concretization(op, where):
            parts = decompose(base, depth)
    if parts is None:
        yield op
        return
    for part in reversed(parts) if adjoint else parts:
        yield from decompose_traced_functions(
            add_modifiers(part, adjoint, controls), where, depth + 1
        )


def _has_traced_reference(function: Any) -> bool:
    """Tell whether a traced value is within reach of a function, but for its module's names."""
    seen, rest = {id(function): function}, [function]
    while rest:
        value = rest.pop()
        if isinstance(value, jax.core.Tracer):
            return True
        if isinstance(value, type | ModuleType):
            continue
        parts: Iterable[Any] = gc.get_referents(value)
        if isinstance(value, FunctionType):
            parts = value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__
        for part in parts:
            if gc.is_tracked(part) and id(part) not in seen:
                seen[id(part)] = part
                rest.append(part)
    return False


# What nothing traced stands in.
_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))

# Most gates are of these, and nothing in them but numbers and wires is traced.
_PARAMETRIZED_GATES = frozenset((qml.RX, qml.RY, qml.RZ, qml.PhaseShift, qml.Rot))
_FIXED_GATES = frozenset((qml.H, qml.S, qml.T, qml.SX, qml.SWAP, qml.CNOT, qml.CZ))

_PAULIS = frozenset((qml.X, qml.Y, qml.Z, qml.Identity))


def _is_pauli_expression(op: qml.operation.Operator) -> bool:
    """Tell whether an operation is made of Paulis, by sums and products, and of nothing else."""
    kind = type(op)
    if kind in _PAULIS:
        return True
    if kind is qml.ops.SProd:
        return _is_pauli_expression(op.base)
    is_sum = kind is qml.ops.Prod or kind is qml.ops.Sum or kind is qml.ops.LinearCombination
    return is_sum and all(map(_is_pauli_expression, op.operands))


def _is_surely_static(value: Any) -> bool:
    """Tell, of most of what operations hold, that nothing traced stands in it.

    They have many parts, of which few are traced, and going through one costs as much as a gate.
    """
    kind = type(value)
    if kind in _PLAIN:
        return True
    if kind is tuple or kind is list:
        return _PLAIN.issuperset(map(type, value))
    if kind is qml.wires.Wires:
        return _PLAIN.issuperset(map(type, value.labels))
    if kind is dict:
        return _PLAIN.issuperset(map(type, value)) and all(map(_is_surely_static, value.values()))
    if kind in _FIXED_GATES:
        return _is_surely_static(value.wires)
    if kind in _PARAMETRIZED_GATES:
        return _is_surely_static(value.data) and _is_surely_static(value.wires)
    if kind is qml.pauli.PauliWord:
        return _PLAIN.issuperset(map(type, value))
    if kind is qml.pauli.PauliSentence:
        return _PLAIN.issuperset(map(type, value.values())) and all(map(_is_surely_static, value))
    # A traced number in a sum of Pauli words is in a coefficient; a wire may be in no word.
    return (
        isinstance(value, qml.operation.Operator)
        and value.pauli_rep is not None
        and _is_surely_static(value.pauli_rep)
        and _is_surely_static(value.wires)
        and _is_pauli_expression(value)
    )


class _OperandCollector:
    """Goes through objects, and takes out what is traced.

    Args:
        taken: the type of that.

    Attributes:
        operands: what was, each once.
        functions: what else can be called, in which nothing was looked for.
    """

    def __init__(self, leaf_type: type) -> None:
        self._leaf_type = leaf_type
        self.operands: list[Any] = []
        self.functions: list[Any] = []
        # By identity, with the object, lest another one gets its number.
        self._constructors: dict[int, tuple[Any, _Constructor | None]] = {}

    def find_constructor(self, value: object) -> _Constructor | None:
        """Return what makes an object of operands; None where nothing in it is traced."""
        key = id(value)
        if key not in self._constructors:
            self._constructors[key] = value, self._make_constructor(value)
        return self._constructors[key][1]

    def _make_constructor(self, value: Any) -> _Constructor | None:
        if isinstance(value, list | tuple):
            return self._combine_constructors(
                enumerate(value), lambda makes: _assemble_sequence(value, makes)
            )
        if isinstance(value, dict):
            if _PLAIN.issuperset(map(type, value)):
                return self._combine_constructors(
                    value.items(), lambda makes: _assemble_dict(value, makes)
                )
            # Those of Pauli words have wires for keys, and sums of words have words.
            pairs = list(value.items())
            return self._combine_constructors(
                enumerate(pairs), lambda makes: _assemble_pairs(type(value), pairs, makes)
            )
        if isinstance(value, self._leaf_type):
            place = len(self.operands)
            self.operands.append(value)
            return lambda values, _: values[place]
        kind = type(value)
        is_ours = isinstance(value, qml.operation.Operator | qml.measurements.MeasurementProcess)
        if is_ours or kind.__module__.startswith("pennylane."):
            parts = getattr(value, "__dict__", {})
            if kind in _PARAMETRIZED_GATES:
                parts = {name: parts[name] for name in ("data", "_wires")}
            return self._combine_constructors(
                parts.items(), lambda makes: _assemble_object(value, makes)
            )
        if callable(value) and not isinstance(value, type):
            self.functions.append(value)
        return None

    def _combine_constructors(
        self, parts: Iterable[tuple[Any, Any]], make_assembler: Callable[..., Any]
    ) -> _Constructor | None:
        """Return what makes an object of its parts; None where nothing in them is traced.

        Args:
            parts: by name or place.
            make_assembler: takes those in which something is traced, and returns what takes them
                as made and makes the object.
        """
        makes = {
            name: found
            for name, part in parts
            if not _is_surely_static(part) and (found := self.find_constructor(part)) is not None
        }
        if not makes:
            return None
        whole = make_assembler(makes)

        def make(values: Sequence[Any], made: dict[Any, Any]) -> Any:
            if make not in made:
                made[make] = whole({name: each(values, made) for name, each in makes.items()})
            return made[make]

        return make


# From the parts of an object that are traced, as made, to the object.
_Assembler = Callable[[dict[Any, Any]], Any]


def _assemble_sequence(like: Any, makes: Any) -> _Assembler:
    kind = type(like)
    rest = [None if place in makes else part for place, part in enumerate(like)]

    def whole(parts: dict[int, Any]) -> Any:
        items = [parts.get(place, part) for place, part in enumerate(rest)]
        return kind(*items) if hasattr(kind, "_fields") else kind(items)

    return whole


def _assemble_dict(like: Any, makes: Any) -> _Assembler:
    kind = type(like)
    rest = {name: None if name in makes else part for name, part in like.items()}
    return lambda parts: kind(rest | parts)


def _assemble_pairs(kind: type, pairs: Any, makes: Any) -> _Assembler:
    every = range(len(pairs))
    rest = {place: pair for place, pair in enumerate(pairs) if place not in makes}
    return lambda parts: kind(dict((rest | parts)[place] for place in every))


def _assemble_object(like: Any, makes: Any) -> _Assembler:
    kind = type(like)
    rest = {name: part for name, part in like.__dict__.items() if name not in makes}

    def whole(parts: dict[str, Any]) -> Any:
        # Not by its constructor, which would queue it and may look at values.
        made = object.__new__(kind)
        made.__dict__.update(rest, **parts)
        if isinstance(made, qml.wires.Wires):
            made._hash = None
        return made

    return whole


def _describe(objects: Any) -> str:
    each = objects if isinstance(objects, list | tuple) else [objects]
    return " ".join(str(getattr(part, "name", type(part).__name__)) for part in each)
