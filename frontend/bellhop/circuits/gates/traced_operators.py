"""Split PennyLane operations into a static template, for an equation's parameters, and tracers.

``qml.ctrl(qml.RX(2 * x, i), control=0)`` contains two tracers, one of them deep inside.
`TracedOperator.partition` searches the attributes of an operation recursively and returns::

    make: values -> ctrl(RX(values[0], wires=values[1]), control=0)    operands: 2 * x, i

`TracedOperator.with_values` rebuilds the operation with other values in place of the tracers.  No
value is extracted from a function in an operation, such as the ``block`` of ``qml.TTN``.  A
function that refers to a tracer must be called in the trace of that tracer:
`TracedOperator.decompose_functions` decomposes the operation there.
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
from bellhop.circuits.gates.decompositions import Modifiers, decompose

# Maps the values of operands, and a memo of objects rebuilt so far by their constructor, to an
# object.
_Constructor = Callable[[Sequence[Any], dict[Any, Any]], Any]


class TracedOperator:
    """A static template of PennyLane objects, with placeholders for their tracers.

    The template is a parameter of a jaxpr equation, and the tracers are its operands. ``partition``
    creates the template, and ``with_values`` rebuilds the objects when the equation is interpreted.

    Args:
        name: the name to print in a jaxpr.
        make: rebuilds the objects from values.

    Attributes:
        is_closed: whether no function in the objects refers to a tracer; such a function could not
            be called after the end of the trace.
    """

    def __init__(self, name: str, make: _Constructor, *, is_closed: bool) -> None:
        self._name = name
        self._make = make
        self.is_closed = is_closed

    @classmethod
    def partition(
        cls, objects: Any, leaf_type: type = jax.core.Tracer
    ) -> tuple["TracedOperator", list[Any]]:
        """Split objects into a static template and the list of tracers in them.

        Args:
            objects: an operation, a measurement process or a wire, or nested tuples and lists.
            leaf_type: the type of the values to extract; tracers by default.

        Returns:
            the template, and the extracted values, each once, in the order of the placeholders.
        """
        parts = _OperandCollector(leaf_type)
        make = parts.find_constructor(objects) or (lambda *_: objects)
        is_closed = not any(map(_has_traced_reference, parts.functions))
        return cls(_describe(objects), make, is_closed=is_closed), parts.operands

    def with_values(self, values: Sequence[Any]) -> Any:
        """Rebuild the objects of this template with new values.

        Components without placeholders are not copied.

        Args:
            values: a value for each value that ``partition`` extracted, in order.

        Returns:
            the objects, in the structure that was passed to ``partition``.
        """
        # Wires must be hashable, so NumPy arrays without axes become NumPy scalars.
        scalars = [value[()] if isinstance(value, np.ndarray) else value for value in values]
        return self._make(scalars, {})

    @staticmethod
    def decompose_functions(
        op: qml.operation.Operator, where: str, depth: int = 0
    ) -> Iterator[Any]:
        """Decompose an operation until no function stored in an operation refers to a tracer.

        ``qml.TTN``, for example, stores its argument ``block``, which may use a traced value. The
        trace of these tracers must still be active. An operation is kept if it has no
        decomposition, or if a parameter is a mid-circuit outcome, which tapes reject later.

        Args:
            op: the operation.
            where: the QNode's name and line, for error messages.
            depth: the number of decomposition steps that led to the operation.

        Yields:
            PennyLane operations, in order; ``op`` itself if none of its functions refers to a
            tracer.
        """
        base, modifiers = Modifiers.strip(op)
        parts = None
        has_outcome = any(isinstance(value, qml.ops.MeasurementValue) for value in base.data)
        if not has_outcome and not TracedOperator.partition(base)[0].is_closed:
            with explain_concretization(op, where):
                parts = decompose(base, depth)
        if parts is None:
            yield op
            return
        for part in reversed(parts) if modifiers.adjoint else parts:
            part = modifiers.apply(part)
            yield from TracedOperator.decompose_functions(part, where, depth + 1)

    def __repr__(self) -> str:
        return self._name


hold_weakly_in_caches(TracedOperator)


def _has_traced_reference(function: Any) -> bool:
    """Return whether a callable refers to a tracer, directly or through other objects.

    Closures, default values and the objects that they refer to are searched; global variables are
    not.

    Args:
        function: the callable.
    """
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


# Types whose values contain no tracer.
_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))

# Common gates, in which only parameters and wires may be traced.
_PARAMETRIZED_GATES = frozenset((qml.RX, qml.RY, qml.RZ, qml.PhaseShift, qml.Rot))
_FIXED_GATES = frozenset((qml.H, qml.S, qml.T, qml.SX, qml.SWAP, qml.CNOT, qml.CZ))

_PAULIS = frozenset((qml.X, qml.Y, qml.Z, qml.Identity))


def _is_pauli_expression(op: qml.operation.Operator) -> bool:
    """Return whether an operator is built from Paulis by sums, products and multiples only.

    Args:
        op: PennyLane operator. If the result is True, ``op.pauli_rep`` defines it completely.
    """
    kind = type(op)
    if kind in _PAULIS:
        return True
    if kind is qml.ops.SProd:
        return _is_pauli_expression(op.base)
    is_sum = kind is qml.ops.Prod or kind is qml.ops.Sum or kind is qml.ops.LinearCombination
    return is_sum and all(map(_is_pauli_expression, op.operands))


def _is_surely_static(value: Any) -> bool:
    """Return True if a value of a common type contains no tracer; False means unknown.

    This is a fast check: operations have many attributes, of which few are traced, and a full
    search of one attribute takes as long as tracing a gate.
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
    # A traced parameter of a sum of Pauli words is in a coefficient of its Pauli representation.
    # The wires are checked separately, because a wire of an identity is in no Pauli word.
    return (
        isinstance(value, qml.operation.Operator)
        and value.pauli_rep is not None
        and _is_surely_static(value.pauli_rep)
        and _is_surely_static(value.wires)
        and _is_pauli_expression(value)
    )


class _OperandCollector:
    """Extracts values of a type from nested objects, to rebuild these with new values.

    ``TracedOperator.partition`` uses an instance for one search. The extracted values are called
    operands.

    Args:
        leaf_type: the type of the values to extract.

    Attributes:
        operands: the extracted values so far, each once.
        functions: the functions in the objects, which were not searched.
    """

    def __init__(self, leaf_type: type) -> None:
        self._leaf_type = leaf_type
        self.operands: list[Any] = []
        self.functions: list[Any] = []
        # By the ``id`` of the object. The object is stored too, so that its ``id`` is not reused.
        self._constructors: dict[int, tuple[Any, _Constructor | None]] = {}

    def find_constructor(self, value: object) -> _Constructor | None:
        """Search an object for operands; return a function that rebuilds it with new ones.

        The operands in the object are appended to ``operands``, and its functions to ``functions``.
        For an object that was searched before, the same function is returned again.

        Returns:
            ``(values, memo) -> object``, where ``values`` has a new value for each entry of
            ``operands``, and ``memo`` is a dictionary, empty at first, that stores each rebuilt
            object, so that it is rebuilt once. None if the object contains no operand.
        """
        key = id(value)
        if key not in self._constructors:
            self._constructors[key] = value, self._make_constructor(value)
        return self._constructors[key][1]

    def _make_constructor(self, value: Any) -> _Constructor | None:
        """Search an object for the first time; return a function that rebuilds it.

        Only lists, tuples, dictionaries and PennyLane's objects are searched for components.

        Returns:
            ``(values, memo) -> object``, as for `find_constructor`; None if the object contains no
            operand.
        """
        if isinstance(value, list | tuple):
            return self._combine_constructors(
                enumerate(value), lambda makes: _assemble_sequence(value, makes)
            )
        if isinstance(value, dict):
            if _PLAIN.issuperset(map(type, value)):
                return self._combine_constructors(
                    value.items(), lambda makes: _assemble_dict(value, makes)
                )
            # Keys may be traced too: they are wires in a Pauli word, and Pauli words in a sentence.
            pairs = list(value.items())
            return self._combine_constructors(
                enumerate(pairs), lambda makes: _assemble_pairs(type(value), pairs, makes)
            )
        if isinstance(value, self._leaf_type):
            index = len(self.operands)
            self.operands.append(value)
            return lambda values, _: values[index]
        kind = type(value)
        is_known = isinstance(value, qml.operation.Operator | qml.measurements.MeasurementProcess)
        if is_known or kind.__module__.startswith("pennylane."):
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
        """Make a function that rebuilds an object from its components.

        Args:
            parts: pairs of a key and a component: the attribute's name and value, or the item's
                index or dictionary key, and the item.
            make_assembler: maps the constructors of the components with operands, a dictionary by
                key, to a function. This function maps the rebuilt components, a dictionary by key,
                to the object.

        Returns:
            ``(values, memo) -> object``, as for `find_constructor`; None if no component contains
            an operand.
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
            """Rebuild the object with new operands; ``made`` has the objects rebuilt so far."""
            if make not in made:
                made[make] = whole({name: each(values, made) for name, each in makes.items()})
            return made[make]

        return make


# Maps the rebuilt components of an object, by name or index, to the object.
_Assembler = Callable[[dict[Any, Any]], Any]


def _assemble_sequence(like: Any, makes: Any) -> _Assembler:
    """Make a function that rebuilds a list, tuple or named tuple with new components.

    Args:
        like: the sequence; its components without operands are reused.
        makes: a mapping whose keys are the indices of the components with operands; its values are
            not used.

    Returns:
        a function from the new components, a dictionary by index, to the sequence.
    """
    kind = type(like)
    rest = [None if place in makes else part for place, part in enumerate(like)]

    def whole(parts: dict[int, Any]) -> Any:
        """Return the sequence with the given components; other components are reused."""
        items = [parts.get(place, part) for place, part in enumerate(rest)]
        return kind(*items) if hasattr(kind, "_fields") else kind(items)

    return whole


def _assemble_dict(like: Any, makes: Any) -> _Assembler:
    """Make a function that rebuilds a dictionary with new values of the keys in ``makes``."""
    kind = type(like)
    rest = {name: None if name in makes else part for name, part in like.items()}
    return lambda parts: kind(rest | parts)


def _assemble_pairs(kind: type, pairs: Any, makes: Any) -> _Assembler:
    """Make a function that rebuilds a dictionary whose keys may be traced.

    Args:
        kind: the class of the dictionary.
        pairs: its pairs of key and value, in order.
        makes: a mapping whose keys are the indices of the pairs that contain traced values; its
            values are not used.

    Returns:
        a function from new pairs, a dictionary by index, to a dictionary with all pairs.
    """
    every = range(len(pairs))
    rest = {place: pair for place, pair in enumerate(pairs) if place not in makes}
    return lambda parts: kind(dict((rest | parts)[place] for place in every))


def _assemble_object(like: Any, makes: Any) -> _Assembler:
    """Make a function that rebuilds an object with new values of some attributes.

    Args:
        like: the object; its attributes without operands are reused.
        makes: a mapping whose keys are the names of the attributes with operands; its values are
            not used.

    Returns:
        a function from the new attributes, a dictionary by name, to a copy of the object.
    """
    kind = type(like)
    rest = {name: part for name, part in like.__dict__.items() if name not in makes}

    def whole(parts: dict[str, Any]) -> Any:
        """Copy the object ``like`` with new attributes, without calling its constructor.

        Args:
            parts: the new attributes by name; other attributes are reused.
        """
        # Not by the constructor, which would queue the object and may read traced values.
        copy = object.__new__(kind)
        copy.__dict__.update(rest, **parts)
        if isinstance(copy, qml.wires.Wires):
            copy._hash = None
        return copy

    return whole


def _describe(objects: Any) -> str:
    """Return the name of an object, or the names in a list of objects, for printing."""
    each = objects if isinstance(objects, list | tuple) else [objects]
    return " ".join(str(getattr(part, "name", type(part).__name__)) for part in each)
