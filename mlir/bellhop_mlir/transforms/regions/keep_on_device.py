"""keep-on-device: keep values that only regions of one device need on the device."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bellhop_mlir._bindings import ir, stablehlo
from bellhop_mlir._block_partition import OperationGroup, compute_inputs_and_outputs, outline_group
from bellhop_mlir._call_graph import find_host_functions, prune_signature
from bellhop_mlir._op_cost import is_constant
from bellhop_mlir._outline import MOST_COPIES, inline_containing_functions
from bellhop_mlir._walk import (
    find_operations,
    find_producer,
    function_type,
    list_operations,
    replace_operation,
    string_attribute,
    symbol_attribute,
    types_of_values,
)
from bellhop_mlir._zeros import build_zeros
from bellhop_mlir.dialects import callback
from bellhop_mlir.passes import Pass
from bellhop_mlir.transforms.regions.region_variants import RegionVariants

# An operation, and the index of one of its operands.
_Use = tuple[ir.Operation, int]
# A loop, the index of a carried value, and the device on which the value stays.
_Carry = tuple[ir.Operation, int, str]


@dataclass(frozen=True)
class KeepOnDevice(Pass):
    """Pass handles of values that are on a region's device, instead of the values.

    A region is a nested module that runs on another device. A handle is a ``tensor<2xui32>`` by
    which the runtime finds an array on the device.

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

    A region's result that a second region on the device uses stays on the device, and is fetched
    only if other operations use it.  A loop-invariant operand is transferred once, before the loop;
    so is an operand of several regions in a block.  A value that a loop carries from region to
    region is transferred before the loop and fetched after it.

    A result of the program that its caller wants on a device stays there if a region computes it
    (place-results adds a region if necessary): the program returns the handle, and the module lists
    such results in an attribute.

    Each handle is owned by the block that makes it, and released at the end of the block, after all
    its uses; ownership of handles that a loop carries, or that the program returns, is transferred.
    Functions that contain regions are inlined if they are called in few places.

    Args:
        results: indices of the results that may be handles, tokens not counted, separated by
            commas.

    Preconditions: convert-accelerate-to-runtime ran before, and the declarations of regions
    still name their modules.
    """

    needs = ("callback.call", "builtin.module")

    results: str = ""

    def apply(self, module: ir.Module) -> bool:
        """Keep values on the devices of regions, in place.

        Returns:
            whether functions were inlined, or a region takes or returns handles now.
        """
        kept_values = _DeviceValueTracker(
            module, list(map(int, filter(None, self.results.split(","))))
        )
        is_region = lambda op: kept_values.regions.find_device(op) is not None
        has_inlined = inline_containing_functions(module, is_region, max_uses=MOST_COPIES)
        for function in find_host_functions(module):
            kept_values.change_function(function)
        return kept_values.regions.finish() or has_inlined


class _DeviceValueTracker:
    """Finds values that can stay on devices, and replaces them by handles.

    A handle is a ``tensor<2xui32>`` by which the runtime finds an array on a device. A region is a
    nested module that runs on another device. The pass makes an instance for a module, and calls
    `change_function` for each function.

    Args:
        module: the module.
        returned: indices of the program's results that may be handles, tokens not counted.

    Attributes:
        regions: the regions of the module, and their variants that take or return handles.
    """

    def __init__(self, module: ir.Module, returned: Sequence[int]) -> None:
        self._module = module
        self._returned = returned
        self.regions = RegionVariants(module)
        self._handle = ir.Type.parse(callback.HANDLE)
        self._owned: list[ir.Value] = []
        # A value that is known when a loop's function has ended, by the function's first result.
        self._taken: dict[ir.Value, ir.Value] = {}
        # In the current function: operands that are handles; uses of each value by regions, and by
        # loops and returns.
        self._held: set[tuple[ir.Value, int]] = set()
        self._by_regions: dict[ir.Value, list[_Use]] = {}
        self._by_carries: dict[ir.Value, list[_Use]] = {}

    def change_function(self, function: ir.Operation) -> None:
        """Replace values by handles in one ``func.func``, and release the handles.

        In ``main``, results that may stay on a device are returned as handles: this changes the
        signature, and an attribute of the module lists these results.
        """
        loops = find_operations(function, "stablehlo.while")
        if not any(map(self.regions.find_target, list_operations(function))):
            return
        for loop in reversed(loops):
            self._replace_invariant_carries(loop)
        carried = [
            (loop, place, device)
            for loop in loops
            for place in range(len(loop.operands))
            if (device := self._find_carry_device(loop, place)) is not None
        ]
        devices = {loop.results[place]: device for loop, place, device in carried}
        self._held, self._by_regions, self._by_carries = set(), defaultdict(list), defaultdict(list)
        self._record_device_uses(function, carried)
        is_main = string_attribute(function, "sym_name") == "main"
        given = self._record_handle_results(function) if is_main else []
        for op in list_operations(function):
            if op.name == "stablehlo.while":
                self._change_loop(op, devices)
            elif self.regions.find_target(op) is not None:
                self._change_region(op)
        # Release results of loops first: a loop that uses a handle is outlined to a function.
        backwards = self._owned[::-1]
        for handle in sorted(backwards, key=lambda handle: not _is_loop_carried(handle)):
            self._release_handle(handle)
        self._owned, self._taken = [], {}
        if given:
            type_ = function_type(function)
            prune_signature(function, range(len(type_.inputs)), range(len(type_.results)))
            callback.set_handle_results(self._module, given)

    def _replace_invariant_carries(self, loop: ir.Operation) -> None:
        """Replace values that a loop carries unchanged by their values before the loop.

        Only values that a region, a nested module on another device, uses are replaced: they can
        then be transferred once, before the loop. The loop is changed in place, and carries zeros
        instead of them.
        """
        condition, body = (region.blocks[0] for region in loop.regions)
        *_, end = body.operations
        for place, argument in enumerate(body.arguments):
            start = loop.operands[place]
            if end.operands[place] != argument or not any(
                self.regions.find_device(op) is not None for op, _ in _list_uses(argument)
            ):
                continue
            argument.replace_all_uses_with(start)
            condition.arguments[place].replace_all_uses_with(start)
            loop.results[place].replace_all_uses_with(start)
            end.operands[place] = argument
            with ir.InsertionPoint(loop), loop.location:
                loop.operands[place] = build_zeros(start.type)

    def _find_carry_device(self, loop: ir.Operation, index: int) -> str | None:
        """Return the device on which a value that a loop carries can stay, or None.

        The value can stay if the loop's body computes its next value by a region on this device (a
        call of a nested module), only regions on this device use it in the body, and the condition
        does not use it. ``index`` is the value's index among the loop's operands.
        """
        body = loop.regions[1].blocks[0]
        *_, end = body.operations
        argument, last = body.arguments[index], end.operands[index]
        device = self.regions.find_device(find_producer(last))
        users = [op for op, _ in _list_uses(argument)]
        if (
            device is None
            or not users
            or len(_list_uses(loop.regions[0].blocks[0].arguments[index]))
        ):
            return None
        is_of_body = find_producer(last).block == body  # type: ignore[union-attr]
        return (
            device
            if is_of_body and {self.regions.find_device(op) for op in users} == {device}
            else None
        )

    def _record_device_uses(self, function: ir.Operation, carried: Sequence[_Carry]) -> None:
        """Record which operands become handles, and transfer values of the host.

        Uses by regions are recorded in ``_by_regions``, uses by loops and by the terminators of
        their bodies in ``_by_carries``. A value of the host is transferred once for all regions of
        a block that use it, and before a loop for the regions in the loop.

        Args:
            function: the ``func.func``.
            carried: for each value that a loop carries on a device: loop, index, device.
        """
        together: dict[tuple[ir.Value, str], list[tuple[ir.Block, ir.Operation, _Use, bool]]]
        together = defaultdict(list)
        resident = _find_carried_values(carried)

        def record_host_use(use: _Use, value: ir.Value, device: str) -> None:
            """Add a use of a host value to ``together``, with the place of its transfer.

            ``together`` lists the uses of each value on each device. The place is before the user,
            or before the outermost loop around the user that does not define the value.

            Args:
                use: operation and index of the operand.
                value: the value, which is on the host.
                device: device of the region that uses the value.
            """
            op, _ = use
            loop = _find_outermost_loop(op, value)
            place = op if loop is None else loop
            together[value, device].append((place.block, place, use, loop is not None))

        for op in list_operations(function):
            for loop, place, device in carried:
                if op != loop:
                    continue
                *_, end = loop.regions[1].blocks[0].operations
                self._by_carries[end.operands[place]].append((end.operation, place))
                start = loop.operands[place]
                # The result of an earlier loop stays on the device if only this loop uses it.
                is_left = resident.get(start) == device and _list_uses(start) == [(loop, place)]
                if is_left or self.regions.find_device(find_producer(start)) == device:
                    self._by_carries[start].append((loop, place))
                else:
                    record_host_use((loop, place), start, device)
            device_of_op = self.regions.find_device(op)
            if device_of_op is None:
                continue
            for number, value in enumerate(op.operands):
                if device_of_op in (
                    resident.get(value),
                    self.regions.find_device(find_producer(value)),
                ):
                    self._by_regions[value].append((op, number))
                elif not is_constant(value):
                    record_host_use((op, number), value, device_of_op)
        for (value, device), uses in together.items():
            self._share_transfer(value, device, uses)

    def _record_handle_results(self, main: ir.Operation) -> list[int]:
        """Record the results of ``main`` that are returned as handles.

        They are the allowed results that regions compute; their uses are added to ``_by_carries``.

        Returns:
            the indices of these results, tokens not counted.
        """
        *_, end = main.regions[0].blocks[0].operations
        tokens = sum(callback.is_token(value.type) for value in end.operands)
        given = []
        for number in self._returned:
            value = end.operands[tokens + number]
            if self.regions.find_target(find_producer(value)) is not None:
                self._by_carries[value].append((end.operation, tokens + number))
                given.append(number)
        return given

    def _share_transfer(
        self,
        value: ir.Value,
        device: str,
        found: list[tuple[ir.Block, ir.Operation, _Use, bool]],
    ) -> None:
        """Transfer a host value to a device once for each block that uses it repeatedly.

        It is also transferred for a single use in a loop, and if a loop carries it as a handle.
        Nothing happens for a block's only use by a region outside of loops: the region takes the
        value itself.

        Args:
            value: the value.
            device: the device.
            found: uses of the value: block, operation before which it is transferred, operation
                with operand index, and whether the use is inside of a loop.
        """
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
                        self._replace_uses_with_handle([(op, number)], handle)
                    continue
                # A loop takes ownership of the handles that it carries.
                own = (
                    self.regions.add_shared_handle(device, handle, value.type, op)
                    if is_shared
                    else self.regions.transfer(device, value, op)
                )
                self._replace_uses_with_handle([(op, number)], own)

    def _change_loop(self, loop: ir.Operation, devices: Mapping[ir.Value, str]) -> None:
        """Replace a loop by one that carries handles instead of some of its values.

        Args:
            loop: the ``stablehlo.while``, which is erased if it changes.
            devices: device on which a result of a loop stays, by result.
        """
        places = [place for place, result in enumerate(loop.results) if result in devices]
        if not places:
            return
        results = types_of_values(loop.results)
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
        following = _next_operation(new)
        values = list(new.results)
        for place in places:
            argument, old = new.regions[1].blocks[0].arguments[place], loop.results[place]
            handle = values[place]
            for value, uses_of in ((argument, argument), (handle, old)):
                self._replace_uses_with_handle(self._by_regions.get(uses_of, []), value)
                if carrying := self._by_carries.get(uses_of):
                    self._replace_uses_with_handle(carrying, value)
                else:
                    self._owned.append(value)
            if _list_uses(old):
                device = devices[old]
                values[place] = self.regions.fetch(device, handle, old.type, following)
        replace_operation(loop, values)

    def _change_region(self, op: ir.Operation) -> None:
        """Replace a call of a nested module by one that takes or returns handles.

        Nothing happens if no operand has become a handle and no result is used as a handle.
        """
        held = [i for i in range(len(op.operands)) if _operand_key(op, i) in self._held]
        fetched: list[int] = []
        kept: list[tuple[int, list[_Use], bool]] = []
        for place, result in enumerate(op.results):
            taking = self._by_regions.get(result, [])
            carrying = self._by_carries.get(result, [])
            if any(use not in taking and use not in carrying for use in _list_uses(result)):
                fetched.append(place)
            if taking:
                kept.append((place, taking, True))
            kept += [(place, [use], False) for use in carrying]
        if not held and not kept:
            return
        name = self.regions.get_or_make_variant(
            symbol_attribute(op), held, fetched, [place for place, *_ in kept]
        )
        new = self.regions.build_call(name, list(op.operands), op)
        for place, value in zip(fetched, new.results, strict=False):
            op.results[place].replace_all_uses_with(value)
        handles = list(new.results)[len(fetched) :]
        for handle, (_, uses, is_owned) in zip(handles, kept, strict=True):
            self._replace_uses_with_handle(uses, handle)
            if is_owned:
                self._owned.append(handle)
        op.erase()

    def _replace_uses_with_handle(self, uses: Sequence[_Use], handle: ir.Value) -> None:
        """Replace operands, given by operation and index, by a handle.

        Operands of callback calls and loops are added to ``_held``, the operands that are handles.
        """
        for op, number in uses:
            op.operands[number] = handle
            if op.name in ("callback.call", "stablehlo.while"):
                self._held.add(_operand_key(op, number))

    def _release_handle(self, handle: ir.Value) -> None:
        """Insert the release of a handle at the end of the block that defines it.

        The release depends on all operations that use the handle, so that it runs after them.
        """
        block = _find_block(handle)
        users: list[ir.Operation] = []
        for op, _ in _list_uses(handle):
            user = _find_ancestor(op, block)
            if user not in users:
                users.append(user)
        anchors = [
            self._pass_out_of_block(user, handle)
            if len(user.regions)
            else self._taken.get(user.results[0], _find_anchor(user))
            for user in users
        ]
        *_, end = block.operations
        with ir.InsertionPoint(end), end.location:
            self.regions.release(handle, anchors)

    def _pass_out_of_block(self, op: ir.Operation, handle: ir.Value) -> ir.Value:
        """Build a copy of a handle that is available only after a loop or conditional.

        The release of the handle uses the copy, and so cannot run earlier. For this, the copy and
        the loop or conditional are outlined to one function, which returns the copy when it ends.

        Args:
            op: the loop or conditional that uses the handle.
            handle: the handle.

        Returns:
            the copy, in the block of ``op``.
        """
        # The results of the loop do not serve: XLA may know some of them, such as the counter,
        # earlier.
        ops = [each.operation for each in op.block.operations]
        place = ops.index(op) + 1
        with ir.InsertionPoint(ops[place]), op.location:
            zero = stablehlo.constant(ir.Attribute.parse(f"dense<0> : {callback.HANDLE}"))
            passed = stablehlo.or_(handle, zero)
            # A second operation uses the result of the group, which makes it an output.
            taken = stablehlo.or_(passed, passed)
        part = OperationGroup([op, zero.owner, passed.owner])
        behind = [taken.owner, *ops[place:]]
        compute_inputs_and_outputs([OperationGroup(ops[: place - 1]), part, OperationGroup(behind)])
        outline_group(self._module, part, "holding")
        holding = find_producer(taken.owner.operands[0])
        assert holding is not None
        self._taken[holding.results[0]] = taken
        return taken


def _list_uses(value: ir.Value) -> list[_Use]:
    """Return the uses of a value: the operations, and the indices of their operands."""
    return [(use.owner.operation, use.operand_number) for use in value.uses]


def _operand_key(op: ir.Operation, index: int) -> tuple[ir.Value, int]:
    """Return a key for sets of operands; ``index`` is the operand's index in ``op``."""
    # An operation's own hash changes with it.
    return op.results[0], index


def _find_carried_values(carried: Sequence[_Carry]) -> dict[ir.Value, str]:
    """Return the device of each value that stays on a device while a loop carries it.

    The values are the arguments of the loop bodies and the results of the loops. ``carried`` has,
    for each carried value, the loop, the value's index among the loop's operands, and the device.
    """
    return {
        value: device
        for loop, place, device in carried
        for value in (loop.regions[1].blocks[0].arguments[place], loop.results[place])
    }


def _find_block(value: ir.Value) -> ir.Block:
    """Return the block that defines a value, as an argument or as an operation's result."""
    op = find_producer(value)
    return value.owner if op is None else op.block


def _is_loop_carried(value: ir.Value) -> bool:
    """Return whether a value is a result of a ``stablehlo.while``."""
    op = find_producer(value)
    return op is not None and op.name == "stablehlo.while"


def _find_ancestor(op: ir.Operation, block: ir.Block) -> ir.Operation:
    """Return the operation of a block that is ``op`` or contains it, at any depth."""
    while op.block != block:
        op = op.block.owner.operation
    return op


def _find_outermost_loop(op: ir.Operation, value: ir.Value) -> ir.Operation | None:
    """Return the outermost loop around ``op`` that does not define ``value``, or None."""
    home = _find_block(value)
    outermost = None
    while op.block != home:
        op = op.block.owner.operation
        if op.name == "stablehlo.while":
            outermost = op
    return outermost


def _next_operation(op: ir.Operation) -> ir.Operation:
    """Return the operation after ``op`` in its block."""
    ops = [each.operation for each in op.block.operations]
    return ops[ops.index(op) + 1]


def _find_anchor(op: ir.Operation) -> ir.Value:
    """Return the first result of an operation that is not a token, else the first result.

    An operation that takes this result as an operand runs after ``op``.
    """
    results = list(op.results)
    return next((each for each in results if not callback.is_token(each.type)), results[0])
