"""Gates, and their encoding as attributes of ``quantum.gates``."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from bellhop_mlir._bindings import ir
from bellhop_mlir.errors import VerificationError

# Maximum number of entries of an array, and index of its first, as in the runtime.
_MAX_ARRAY = 2**48


@dataclass(frozen=True)
class Gate:
    """One gate of a ``quantum.gates``, without values of traced parameters.

    Attributes:
        name: PennyLane's name of the gate; ``@`` and ``file:line`` in the user's code may follow.
        wires: qubits of the targets; a negative number ``-1 - i`` refers to entry ``i`` of the
            operation's operand of dynamic wires.
        slots: for each parameter, where its value is: ``i >= 0`` is entry ``i`` of the operation's
            operand of traced parameters, ``-1 - i`` is ``constants[i]``. If the parameter is an
            array, such as a matrix, the slots of its entries are one range, so that the encoding
            has the same size for all arrays.
        constants: values of the constant parameters.
        adjoint: whether the gate is inverted.
        control_wires: qubits of the controls, negative as in ``wires``.
        control_values: 0 or 1 for each control.
    """

    name: str
    wires: tuple[int, ...]
    slots: tuple[int, ...] | range = ()
    constants: tuple[float, ...] = ()
    adjoint: bool = False
    control_wires: tuple[int, ...] = ()
    control_values: tuple[int, ...] = ()


def encode_gates(gates: Iterable[Gate]) -> dict[str, Any]:
    """Encode gates as the attributes of a ``quantum.gates`` operation.

    Returns:
        values of ``names`` (the distinct names, one a line), ``code`` (integers) and ``constants``
        (floats), as ``bellhop_circuit_gates`` in the contract describes them. `iterate_gates`
        decodes them.
    """
    names: dict[str, int] = {}
    code: list[int] = []
    constants: list[float] = []
    for gate in gates:
        base = len(constants)
        constants.extend(gate.constants)
        code += (
            names.setdefault(gate.name, len(names)),
            int(gate.adjoint),
            -len(gate.slots) if isinstance(gate.slots, range) else len(gate.slots),
            len(gate.wires),
            len(gate.control_wires),
        )
        listed = gate.slots[:1] if isinstance(gate.slots, range) else gate.slots
        code += (slot if slot >= 0 else slot - base for slot in listed)
        code += gate.wires
        code += gate.control_wires
        code += gate.control_values
    return {"names": "\n".join(names), "code": code, "constants": constants}


def decode_gates(run: ir.Operation) -> list[Gate]:
    """Return the gates in the attributes of a ``quantum.gates`` or ``quantum.run``."""
    return list(iterate_gates(run))


def iterate_gates(run: ir.Operation) -> Iterator[Gate]:
    """Yield the gates in the attributes of a ``quantum.gates`` or ``quantum.run``.

    The inverse of `encode_gates`, except that each gate has its own constants only.

    Raises:
        VerificationError: for gates that `verify_gates` rejects, at the first faulty gate.
    """
    constants = list(run.attributes["constants"])
    for gate in _read_gates(run):
        slots = gate.slots
        if isinstance(slots, range):
            first = -1 - slots.start
            # A slice: the size of an array of traced parameters has no limit but its type.
            own = constants[first : first + len(slots)] if slots.start < 0 else []
        else:
            own = [constants[-1 - slot] for slot in slots if slot < 0]
        yield replace(gate, slots=_localize_slots(slots), constants=tuple(own))


def verify_gates(run: ir.Operation) -> None:
    """Check the encoded gates of an untrusted ``quantum.gates`` or ``quantum.run``.

    The rules are the rules by which the runtime decodes the attributes ``names``, ``code`` and
    ``constants`` (``runtime/gates/gate_parser.cc``), without the rules of single gates. The time is
    linear in the size of the attributes, and does not depend on the counts in them.

    Raises:
        VerificationError: for an index, a count or a value out of range.
    """
    for _ in _read_gates(run):
        pass


def _read_gates(run: ir.Operation) -> Iterator[Gate]:
    """Decode the gates of a ``quantum.gates`` or ``quantum.run``, without their constants.

    Slots of constants are indices into all constants of the operation, as in its attribute
    ``code``; `_localize_slots` converts them to indices into the gate's own constants.

    Raises:
        VerificationError: as in `verify_gates`, at the first faulty gate.
    """
    text = run.attributes["names"].value
    names = text.removesuffix("\n").split("\n") if text else []
    n_constants = len(run.attributes["constants"])
    reader = _CodeReader(list(run.attributes["code"]))
    while not reader.is_done():
        name = names[reader.read_below(len(names), "index of a name")]
        adjoint = bool(reader.read_below(2, "adjoint"))
        n_slots = reader.read()
        n_wires = reader.read_count("the number of wires")
        n_controls = reader.read_count("the number of control wires")
        slots: tuple[int, ...] | range
        if n_slots >= 0:
            slots = reader.take(n_slots)
        else:
            first = reader.read()
            if n_slots < -_MAX_ARRAY or abs(first) > _MAX_ARRAY:
                reader.fail(
                    f"size and offset of a parameter array: expected at most {_MAX_ARRAY}, got "
                    f"{max(-n_slots, abs(first))}"
                )
            slots = array_slots(first, -n_slots)
        ends = (slots[0], slots[-1]) if isinstance(slots, range) else slots
        smallest = min(ends, default=0)
        if -1 - smallest >= n_constants:
            reader.fail(
                f"index of a constant: {_describe_indices(n_constants)}, got {-1 - smallest}"
            )
        wires, controls, values = map(reader.take, (n_wires, n_controls, n_controls))
        if not {0, 1}.issuperset(values):
            reader.fail(f"a control value: expected 0 or 1, got {values}")
        yield Gate(name, wires, slots, (), adjoint, controls, values)


def _describe_indices(count: int) -> str:
    """Describe the allowed values of an index into ``count`` elements, for an error."""
    return f"expected 0 to {count - 1}" if count > 0 else "there is none"


class _CodeReader:
    """Reads the integers that encode gates, in order; raises an error for a bad value.

    Args:
        code: the integers: the attribute ``code`` of a ``quantum.gates`` or ``quantum.run``.
    """

    def __init__(self, code: Sequence[int]) -> None:
        self._code = code
        self._position = 0

    def is_done(self) -> bool:
        """Return whether all integers have been read."""
        return self._position == len(self._code)

    def read(self) -> int:
        """Read the next integer."""
        return self.take(1)[0]

    def read_below(self, limit: int, meaning: str) -> int:
        """Read the next integer, from 0 to ``limit - 1``; ``meaning`` names it in errors."""
        value = self.read()
        if not 0 <= value < limit:
            self.fail(f"{meaning}: {_describe_indices(limit)}, got {value}")
        return value

    def read_count(self, meaning: str) -> int:
        """Read a count of later integers, at most the number of integers that are left.

        ``meaning`` names the count in errors.
        """
        return self.read_below(len(self._code) - self._position, meaning)

    def take(self, count: int) -> tuple[int, ...]:
        """Read the next ``count`` integers; raise `VerificationError` if fewer are left."""
        if count > len(self._code) - self._position:
            remaining = len(self._code) - self._position
            self.fail(f"expected {count} more integers, got {remaining}")
        taken = tuple(self._code[self._position : self._position + count])
        self._position += count
        return taken

    def fail(self, problem: str) -> NoReturn:
        """Raise a `VerificationError` with the current position and ``problem``."""
        raise VerificationError(
            f"the table of gates, integer {self._position} of the code: {problem}"
        )


def array_slots(first: int, size: int) -> range:
    """Return the slots of an array's entries, given the slot of its first entry.

    A slot is the index of a parameter; slots of constants are negative and decrease:
    ``array_slots(2, 3)`` has 2, 3, 4, and ``array_slots(-1, 3)`` has -1, -2, -3.
    """
    return range(first, first + size) if first >= 0 else range(first, first - size, -1)


def shift_slots(slots: tuple[int, ...] | range, by: int) -> tuple[int, ...] | range:
    """Add ``by`` to a gate's indices of traced parameters; slots of constants stay.

    ``slots`` are as in ``Gate.slots``. Used when ``by`` parameters of other gates are inserted
    before the gate's parameters.
    """
    if isinstance(slots, range):
        is_constant = slots.start < 0
        return slots if is_constant else range(slots.start + by, slots.stop + by)
    return tuple(slot if slot < 0 else by + slot for slot in slots)


def _localize_slots(slots: tuple[int, ...] | range) -> tuple[int, ...] | range:
    """Convert indices into an operation's constants to indices into a gate's constants.

    Args:
        slots: slots as in the operation's code: constant ``i`` of the operation is ``-1 - i``.

    Returns:
        slots as in ``Gate.slots``: the gate's first constant is -1, the second -2.
    """
    if isinstance(slots, range):
        return slots if slots.start >= 0 else array_slots(-1, len(slots))
    own = iter(range(-1, -1 - len(slots), -1))
    return tuple(slot if slot >= 0 else next(own) for slot in slots)
