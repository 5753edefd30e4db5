"""merge-rotations: rotations about the same axis become one, by the sum of the angles."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from bellhop_mlir._adjacent_gates import Placed, chains, simplify
from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import functions, integer
from bellhop_mlir.dialects import quantum

# Of one parameter, and angles add up.
ROTATIONS = frozenset(
    {
        *("RX", "RY", "RZ", "PhaseShift", "CRX", "CRY", "CRZ", "ControlledPhaseShift"),
        *("MultiRZ", "IsingXX", "IsingYY", "IsingZZ"),
    }
)


@dataclass(frozen=True)
class MergeRotations:
    """Merge rotations about the same axis that meet on the same wires.

    Before::

        %1 = "quantum.gate"(%0, %p, %o, %w) {name = "RX", slots = array<i64: 0>, ...}
        %2 = "quantum.gate"(%1, %p, %o, %w) {name = "RX", slots = array<i64: -1>,
            constants = array<f64: 0.1>, ...}

    After::

        %a = stablehlo.slice %p [0:1] : (tensor<1xf64>) -> tensor<1xf64>
        %c = stablehlo.constant dense<0.1> : tensor<1xf64>
        %s = stablehlo.add %a, %c : tensor<1xf64>
        %q = stablehlo.concatenate %p, %s, dim = 0 : (...) -> tensor<2xf64>
        %1 = "quantum.gate"(%0, %q, %o, %w) {name = "RX", slots = array<i64: 1>, ...}

    Constant angles are summed here, and a sum of zero is no gate.  Angles that the program
    computes are summed where nobody differentiates by them (their offset is -1): the
    derivative of a circuit counts its parameters, which stay as they are.  In a batch, all of
    this is done with the axis of rows in front.
    """

    name: ClassVar[str] = "merge-rotations"

    def apply(self, module: ir.Module) -> bool:
        """Change ``module`` in place; return False where nothing changed."""
        return self.apply_to(functions(module).values())

    def apply_to(self, circuits: Iterable[ir.Operation]) -> bool:
        """Change these functions in place; return whether any changed."""
        found = False
        for function in circuits:
            for chain in list(chains(function)):
                found |= _Merging(chain).run()
        return found


# An angle as a sum: the constant part, and slots with their signs.
@dataclass(frozen=True)
class _Sum:
    constant: float
    slots: tuple[tuple[int, bool], ...]


class _Merging:
    """The rotations of one chain."""

    def __init__(self, chain: list[Placed]) -> None:
        self._chain = chain
        # What gates that stand for several turn by.
        self._sums: dict[int, _Sum] = {}

    def run(self) -> bool:
        kept, changed = simplify(self._chain, self._meet)
        if not changed:
            return False
        wider = self._widened_parameters(kept)
        by_op = {id(placed.op): placed for placed in kept}
        for placed in self._chain:
            op = placed.op
            state, params, offset, wires = op.operands
            if id(op) in by_op:
                gate = by_op[id(op)].gate
                with ir.InsertionPoint(op), op.location:
                    state = quantum.gate(state, wider.get(params, params), offset, wires, gate)
            op.results[0].replace_all_uses_with(state)
            op.erase()
        return True

    def _meet(self, earlier: Placed, later: Placed) -> list[Placed] | None:
        if earlier.gate.name not in ROTATIONS or not earlier.acts_as(later):
            return None
        one, other = self._sum(earlier), self._sum(later)
        if (one.slots or other.slots) and not _may_compute(earlier, later):
            return None
        total = _Sum(one.constant + other.constant, one.slots + other.slots)
        if not total.slots and total.constant == 0.0:
            return []
        gate = replace(later.gate, slots=(-1,), constants=(total.constant,), adjoint=False)
        self._sums[id(later.op)] = total
        return [Placed(later.op, gate)]

    def _sum(self, placed: Placed) -> _Sum:
        if id(placed.op) in self._sums:
            return self._sums[id(placed.op)]
        (angle,) = placed.angles
        if isinstance(angle, float):
            return _Sum(-angle if placed.gate.adjoint else angle, ())
        return _Sum(0.0, ((angle, placed.gate.adjoint),))

    def _widened_parameters(self, kept: list[Placed]) -> dict[ir.Value, ir.Value]:
        """Append the sums that the program computes to its parameters, and let gates read them."""
        appended: dict[ir.Value, list[ir.Value]] = {}
        for number, placed in enumerate(kept):
            total = self._sums.get(id(placed.op))
            if total is None or not total.slots:
                continue
            params = placed.op.operands[1]
            values = appended.setdefault(params, [])
            first = next(p.op for p in self._chain if p.op.operands[1] == params)
            with ir.InsertionPoint(first), first.location:
                values.append(_computed(params, total))
            slot = _length(params) + len(values) - 1
            kept[number] = Placed(placed.op, replace(placed.gate, slots=(slot,), constants=()))
        wider = {}
        for params, values in appended.items():
            first = next(p.op for p in self._chain if p.op.operands[1] == params)
            with ir.InsertionPoint(first), first.location:
                wider[params] = _concatenated([params, *values])
        return wider


def _may_compute(one: Placed, other: Placed) -> bool:
    """Tell whether nobody differentiates by the angles, and both are read from one vector."""
    return one.op.operands[1] == other.op.operands[1] and all(
        integer(placed.op.operands[2]) == -1 for placed in (one, other)
    )


def _shape(params: ir.Value) -> list[int]:
    """Return the shape: how many there are, in a batch with the rows in front."""
    return list(ir.RankedTensorType(params.type).shape)


def _length(params: ir.Value) -> int:
    return _shape(params)[-1]


def _type_of_length(params: ir.Value, length: int) -> ir.Type:
    return ir.RankedTensorType.get([*_shape(params)[:-1], length], ir.F64Type.get())


def _computed(params: ir.Value, total: _Sum) -> ir.Value:
    one = _type_of_length(params, 1)
    rows = _shape(params)[:-1]
    value = None
    if total.constant != 0.0:
        splat = ir.DenseElementsAttr.get_splat(one, ir.FloatAttr.get_f64(total.constant))
        value = _op("stablehlo.constant", one, [], value=splat)
    for slot, is_negative in total.slots:
        array = ir.DenseI64ArrayAttr.get
        angle = _op(
            "stablehlo.slice",
            one,
            [params],
            start_indices=array([*(0 for _ in rows), slot]),
            limit_indices=array([*rows, slot + 1]),
            strides=array([1 for _ in (*rows, slot)]),
        )
        if is_negative:
            angle = _op("stablehlo.negate", one, [angle])
        value = angle if value is None else _op("stablehlo.add", one, [value, angle])
    assert value is not None
    return value


def _concatenated(parts: list[ir.Value]) -> ir.Value:
    type_ = _type_of_length(parts[0], sum(map(_length, parts)))
    axis = len(_shape(parts[0])) - 1
    dimension = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)
    return _op("stablehlo.concatenate", type_, parts, dimension=dimension)


def _op(name: str, type_: ir.Type, operands: list[ir.Value], **attributes: ir.Attribute) -> Any:
    create = ir.Operation.create
    return create(name, results=[type_], operands=operands, attributes=attributes).result
