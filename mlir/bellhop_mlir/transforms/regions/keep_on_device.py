"""keep-on-device: values that only regions of one device need stay there."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bellhop_mlir._bindings import ir, stablehlo
from bellhop_mlir._call_graph import functions_here, narrow
from bellhop_mlir._cheap import is_constant
from bellhop_mlir._outline import MOST_COPIES, inline_callers
from bellhop_mlir._parts import OperationGroup, connect, outline
from bellhop_mlir._walk import (
    function_type,
    named,
    operations,
    producer,
    replace,
    string,
    symbol,
    types,
)
from bellhop_mlir._zeros import zeros
from bellhop_mlir.dialects import callback
from bellhop_mlir.passes import Pass
from bellhop_mlir.transforms.regions.region_variants import RegionVariants

# An operation, and the number of one of its operands.
_Use = tuple[ir.Operation, int]
# A loop, the number of what it carries, and the device where that stays.
_Carry = tuple[ir.Operation, int, str]


@dataclass(frozen=True)
class KeepOnDevice(Pass):
    """Give regions handles of values that are on their device, in place of the values.

    Before::

        %0 = stablehlo.while(%i = %zero, %x = %start, %w = %weights) ... do {
          %y = "callback.call"(%w, %x) {callee = @region, kind = "pure"} ...
          %c = func.call @circuit(%y) ...
          stablehlo.return %j, %c, %w

    After::

        %t = "callback.call"(%weights) {callee = @transfer, kind = "pure", bellhop.stays} ...
        %0 = stablehlo.while(%i = %zero, %x = %start, %w = %weights) ... do {
          %y = "callback.call"(%t, %x) {callee = @region_0, kind = "pure", bellhop.stays} ...
          %c = func.call @circuit(%y) ...
          stablehlo.return %j, %c, %w
        }
        "callback.call"(%t, %0#0) {callee = @transfer, kind = "release"} : ...

    A result that another region of the device takes is kept there, and is fetched only if something
    else uses it.  An operand that a loop does not change goes there once, before the loop; so does
    one that several regions of a block take, or loops carry on.  What a loop carries from region to
    region goes there before the loop and back behind it.

    A result of the program that its caller asks for on a device stays where a region, or a loop of
    such, has left it: the program returns the handle, and an attribute of the module says so.

    Each handle has one owner, the block in which it is made, whose end lets go of it behind all its
    uses; one that a loop carries on, or the program returns, is given away.  Functions that hold
    regions, which hide them, are inlined where they are called in few places.

    Args:
        results: the numbers of the results that may be handles, tokens left out, by commas.

    Preconditions: convert-accelerate-to-runtime ran before, and the declarations of regions
    still name their modules.
    """

    needs = ("callback.call", "builtin.module")

    results: str = ""

    def apply(self, module: ir.Module) -> bool:
        """Change ``module`` in place; return False where nothing changed."""
        kept_values = _KeptValues(module, list(map(int, filter(None, self.results.split(",")))))
        is_region = lambda op: kept_values.regions.device(op) is not None
        inline_callers(module, is_region, most=MOST_COPIES)
        for function in functions_here(module):
            kept_values.change(function)
        return kept_values.regions.finish()


class _KeptValues:
    def __init__(self, module: ir.Module, returned: Sequence[int]) -> None:
        self._module = module
        self._returned = returned
        self.regions = RegionVariants(module)
        self._handle = ir.Type.parse(callback.HANDLE)
        self._owned: list[ir.Value] = []
        # By the first result of a function that a loop became: what is there once it is over.
        self._taken: dict[ir.Value, ir.Value] = {}
        # Of what is being changed: operands that are handles, and uses of results.
        self._held: set[tuple[ir.Value, int]] = set()
        self._by_regions: dict[ir.Value, list[_Use]] = {}
        self._by_carries: dict[ir.Value, list[_Use]] = {}

    def change(self, function: ir.Operation) -> None:
        """Change one function."""
        loops = named(function, "stablehlo.while")
        if not any(map(self.regions.target, operations(function))):
            return
        for loop in reversed(loops):
            self._use_what_is_outside(loop)
        carried = [
            (loop, place, device)
            for loop in loops
            for place in range(len(loop.operands))
            if (device := self._device_of_carry(loop, place)) is not None
        ]
        devices = {loop.results[place]: device for loop, place, device in carried}
        self._held, self._by_regions, self._by_carries = set(), defaultdict(list), defaultdict(list)
        self._collect(function, carried)
        is_main = string(function, "sym_name") == "main"
        given = self._give_away_results(function) if is_main else []
        for op in operations(function):
            if op.name == "stablehlo.while":
                self._change_loop(op, devices)
            elif self.regions.target(op) is not None:
                self._change_region(op)
        # A loop that uses a handle becomes a function, so its own results are seen to before.
        backwards = self._owned[::-1]
        for handle in sorted(backwards, key=lambda handle: not _is_of_loop(handle)):
            self._release(handle)
        self._owned, self._taken = [], {}
        if given:
            type_ = function_type(function)
            narrow(function, range(len(type_.inputs)), range(len(type_.results)))
            callback.set_given_results(self._module, given)

    def _use_what_is_outside(self, loop: ir.Operation) -> None:
        """Let a loop use from outside what it does not change and regions take."""
        condition, body = (region.blocks[0] for region in loop.regions)
        *_, end = body.operations
        for place, argument in enumerate(body.arguments):
            start = loop.operands[place]
            if end.operands[place] != argument or not any(
                self.regions.device(op) is not None for op, _ in _uses(argument)
            ):
                continue
            argument.replace_all_uses_with(start)
            condition.arguments[place].replace_all_uses_with(start)
            loop.results[place].replace_all_uses_with(start)
            end.operands[place] = argument
            with ir.InsertionPoint(loop), loop.location:
                loop.operands[place] = zeros(start.type)

    def _device_of_carry(self, loop: ir.Operation, place: int) -> str | None:
        """Return the device that what a loop carries may stay on."""
        body = loop.regions[1].blocks[0]
        *_, end = body.operations
        argument, last = body.arguments[place], end.operands[place]
        device = self.regions.device(producer(last))
        users = [op for op, _ in _uses(argument)]
        if device is None or not users or len(_uses(loop.regions[0].blocks[0].arguments[place])):
            return None
        is_of_body = producer(last).block == body  # type: ignore[union-attr]
        return (
            device if is_of_body and {self.regions.device(op) for op in users} == {device} else None
        )

    def _collect(self, function: ir.Operation, carried: Sequence[_Carry]) -> None:
        """Find out which use needs a handle, and make those of values that are on the host."""
        together: dict[tuple[ir.Value, str], list[tuple[ir.Block, ir.Operation, _Use, bool]]]
        together = defaultdict(list)
        resident = _values_of(carried)

        def goes_there(use: _Use, value: ir.Value, device: str) -> None:
            op, _ = use
            loop = _outermost_without(op, value)
            place = op if loop is None else loop
            together[value, device].append((place.block, place, use, loop is not None))

        for op in operations(function):
            for loop, place, device in carried:
                if op != loop:
                    continue
                *_, end = loop.regions[1].blocks[0].operations
                self._by_carries[end.operands[place]].append((end.operation, place))
                start = loop.operands[place]
                # What a loop before has left goes on where this one alone takes it.
                is_left = resident.get(start) == device and _uses(start) == [(loop, place)]
                if is_left or self.regions.device(producer(start)) == device:
                    self._by_carries[start].append((loop, place))
                else:
                    goes_there((loop, place), start, device)
            device_of_op = self.regions.device(op)
            if device_of_op is None:
                continue
            for number, value in enumerate(op.operands):
                if device_of_op in (resident.get(value), self.regions.device(producer(value))):
                    self._by_regions[value].append((op, number))
                elif not is_constant(value):
                    goes_there((op, number), value, device_of_op)
        for (value, device), uses in together.items():
            self._share(value, device, uses)

    def _give_away_results(self, main: ir.Operation) -> list[int]:
        """Let the program return handles where it may and regions make the results; say where."""
        *_, end = main.regions[0].blocks[0].operations
        tokens = sum(callback.is_token(value.type) for value in end.operands)
        given = []
        for number in self._returned:
            value = end.operands[tokens + number]
            if self.regions.target(producer(value)) is not None:
                self._by_carries[value].append((end.operation, tokens + number))
                given.append(number)
        return given

    def _share(
        self,
        value: ir.Value,
        device: str,
        found: list[tuple[ir.Block, ir.Operation, _Use, bool]],
    ) -> None:
        """Let uses of a value on the host have it moved once for each block."""
        while found:
            here = [each for each in found if each[0] == found[0][0]]
            found = [each for each in found if each not in here]
            _, before, _, is_in_loop = here[0]
            is_shared = len(here) > 1 or is_in_loop
            if is_shared:
                handle = self.regions.transfer(device, value, before)
                self._owned.append(handle)
            for _, _, (op, number), _ in here:
                if op.name != "stablehlo.while":
                    if is_shared:
                        self._hand([(op, number)], handle)
                    continue
                # A loop gives away what it carries on.
                own = (
                    self.regions.second(device, handle, value.type, op)
                    if is_shared
                    else self.regions.transfer(device, value, op)
                )
                self._hand([(op, number)], own)

    def _change_loop(self, loop: ir.Operation, devices: Mapping[ir.Value, str]) -> None:
        places = [place for place, result in enumerate(loop.results) if result in devices]
        if not places:
            return
        results = types(loop.results)
        for place in places:
            results[place] = self._handle
        with ir.InsertionPoint(loop), loop.location:
            new = ir.Operation.create(
                loop.name,
                results=results,
                operands=list(loop.operands),
                attributes=dict(loop.attributes.items()),
                regions=len(loop.regions),
            )
        for old, region in zip(loop.regions, new.regions, strict=True):
            old.blocks[0].append_to(region)
            for place in places:
                region.blocks[0].arguments[place].set_type(self._handle)
        following = _following(new)
        values = list(new.results)
        for place in places:
            argument, old = new.regions[1].blocks[0].arguments[place], loop.results[place]
            handle = values[place]
            for value, uses_of in ((argument, argument), (handle, old)):
                self._hand(self._by_regions.get(uses_of, []), value)
                if carrying := self._by_carries.get(uses_of):
                    self._hand(carrying, value)
                else:
                    self._owned.append(value)
            if _uses(old):
                device = devices[old]
                values[place] = self.regions.fetch(device, handle, old.type, following)
        replace(loop, values)

    def _change_region(self, op: ir.Operation) -> None:
        held = [i for i in range(len(op.operands)) if _key(op, i) in self._held]
        fetched: list[int] = []
        kept: list[tuple[int, list[_Use], bool]] = []
        for place, result in enumerate(op.results):
            taking = self._by_regions.get(result, [])
            carrying = self._by_carries.get(result, [])
            if any(use not in taking and use not in carrying for use in _uses(result)):
                fetched.append(place)
            if taking:
                kept.append((place, taking, True))
            kept += [(place, [use], False) for use in carrying]
        if not held and not kept:
            return
        name = self.regions.variant(symbol(op), held, fetched, [place for place, *_ in kept])
        new = self.regions.call(name, list(op.operands), op)
        for place, value in zip(fetched, new.results, strict=False):
            op.results[place].replace_all_uses_with(value)
        handles = list(new.results)[len(fetched) :]
        for handle, (_, uses, is_owned) in zip(handles, kept, strict=True):
            self._hand(uses, handle)
            if is_owned:
                self._owned.append(handle)
        op.erase()

    def _hand(self, uses: Sequence[_Use], handle: ir.Value) -> None:
        """Let uses of a value be such of its handle."""
        for op, number in uses:
            op.operands[number] = handle
            if op.name in ("callback.call", "stablehlo.while"):
                self._held.add(_key(op, number))

    def _release(self, handle: ir.Value) -> None:
        """Let go of what a handle stands for where its block ends, behind all uses."""
        block = _block_of(handle)
        users: list[ir.Operation] = []
        for op, _ in _uses(handle):
            user = _ancestor(op, block)
            if user not in users:
                users.append(user)
        anchors = [
            self._passed(user, handle)
            if len(user.regions)
            else self._taken.get(user.results[0], _anchor(user))
            for user in users
        ]
        *_, end = block.operations
        with ir.InsertionPoint(end), end.location:
            self.regions.release(handle, anchors)

    def _passed(self, op: ir.Operation, handle: ir.Value) -> ir.Value:
        """Return a handle that is there once a loop, or a conditional, is over.

        XLA may know results of the loop before: that of the counter.
        """
        ops = [each.operation for each in op.block.operations]
        place = ops.index(op) + 1
        with ir.InsertionPoint(ops[place]), op.location:
            zero = stablehlo.constant(ir.Attribute.parse(f"dense<0> : {callback.HANDLE}"))
            passed = stablehlo.or_(handle, zero)
            # What the part gives is what something behind it takes.
            taken = stablehlo.or_(passed, passed)
        part = OperationGroup([op, zero.owner, passed.owner])
        behind = [taken.owner, *ops[place:]]
        connect([OperationGroup(ops[: place - 1]), part, OperationGroup(behind)])
        outline(self._module, part, "holding")
        holding = producer(taken.owner.operands[0])
        assert holding is not None
        self._taken[holding.results[0]] = taken
        return taken


def _uses(value: ir.Value) -> list[_Use]:
    return [(use.owner.operation, use.operand_number) for use in value.uses]


def _key(op: ir.Operation, number: int) -> tuple[ir.Value, int]:
    # An operation's own hash changes with it.
    return op.results[0], number


def _values_of(carried: Sequence[_Carry]) -> dict[ir.Value, str]:
    """Return what loops carry on devices, as their bodies and what follows them have it."""
    return {
        value: device
        for loop, place, device in carried
        for value in (loop.regions[1].blocks[0].arguments[place], loop.results[place])
    }


def _block_of(value: ir.Value) -> ir.Block:
    op = producer(value)
    return value.owner if op is None else op.block


def _is_of_loop(value: ir.Value) -> bool:
    op = producer(value)
    return op is not None and op.name == "stablehlo.while"


def _ancestor(op: ir.Operation, block: ir.Block) -> ir.Operation:
    """Return the operation of a block that is ``op`` or holds it."""
    while op.block != block:
        op = op.block.owner.operation
    return op


def _outermost_without(op: ir.Operation, value: ir.Value) -> ir.Operation | None:
    """Return the outermost loop around an operation that a value is not made in."""
    home = _block_of(value)
    outermost = None
    while op.block != home:
        op = op.block.owner.operation
        if op.name == "stablehlo.while":
            outermost = op
    return outermost


def _following(op: ir.Operation) -> ir.Operation:
    ops = [each.operation for each in op.block.operations]
    return ops[ops.index(op) + 1]


def _anchor(op: ir.Operation) -> ir.Value:
    results = list(op.results)
    return next((each for each in results if not callback.is_token(each.type)), results[0])
