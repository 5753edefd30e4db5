"""Regions of a module, and variants of them that take or return handles."""

from collections.abc import Mapping, Sequence
from typing import Any

from bellhop_mlir._bindings import func, ir
from bellhop_mlir._walk import (
    find_symbols,
    list_operations,
    make_unique_symbol,
    source_line,
    string_attribute,
    symbol_attribute,
)
from bellhop_mlir.dialects import callback
from bellhop_mlir.dialects._attributes import make_i64


class RegionVariants:
    """The regions of a module, and variants of them that take and return handles.

    A region is a nested module that runs on another device; a ``callback.func`` declares it, and a
    ``callback.call`` calls it. A handle is a ``tensor<2xui32>`` by which the runtime finds an array
    on the device. A variant is a copy of a region's nested module with its own declaration, whose
    attributes ``held``, ``fetched`` and ``kept`` list the operands and results that are handles. A
    pass makes an instance for a module, requests variants, and calls `finish` at the end.

    Args:
        module: a module after convert-accelerate-to-runtime; variants are added to it.
    """

    def __init__(self, module: ir.Module) -> None:
        self._module = module
        self._modules = find_symbols(module, "builtin.module")
        self._declared = {
            name: declaration
            for name, declaration in callback.find_declarations(module).items()
            if declaration.module is not None
        }
        self._first_id = min((each.id for each in self._declared.values()), default=0)
        self._handle = ir.Type.parse(callback.HANDLE)
        self._variants: dict[object, str] = {}

    def find_device(self, op: ir.Operation | None) -> str | None:
        """Return the device of the nested module that an operation calls, as ``platform:id``.

        None if `find_target` returns None, or for a module that runs on several devices.
        """
        target = self.find_target(op)
        return None if target is None or target.startswith("sharding:") else target

    def find_target(self, op: ir.Operation | None) -> str | None:
        """Return the device or sharding of the nested module that an operation calls.

        Args:
            op: an operation; None for the producer of a block argument.

        Returns:
            ``platform:id``, or ``sharding:...`` for several devices. None if the operation does not
            call a nested module, if it calls a variant already, if the call is not pure, or if it
            has no results.
        """
        if op is None or op.name != "callback.call" or not len(op.results):
            return None
        if symbol_attribute(op) not in self._declared:
            return None
        if self._declared[symbol_attribute(op)].find_indices("held") is not None:
            # The call uses a variant already.
            return None
        module = self._declared[symbol_attribute(op)].module
        if module is None or not callback.CallOp(op).traits.is_pure:
            return None
        return string_attribute(self._modules[module], "bellhop.device")

    def is_region(self, name: str) -> bool:
        """Return whether the ``callback.func`` with a symbol declares a nested module."""
        return name in self._declared

    def transfer(self, device: str, value: ir.Value, before: ir.Operation) -> ir.Value:
        """Build a call that copies a host value to a device; return the copy's handle.

        Args:
            device: the device, as ``platform:id``.
            value: the value.
            before: operation before which the call is inserted.
        """
        return self._transfer(device, value, value.type, before, held=(), fetched=()).results[0]

    def add_shared_handle(
        self, device: str, handle: ir.Value, type_: ir.Type, before: ir.Operation
    ) -> ir.Value:
        """Build a call that returns a second handle of a value on a device.

        Each of the two handles must be released, and is valid until its own release.

        Args:
            device: the device, as ``platform:id``.
            handle: the first handle.
            type_: type of the value.
            before: operation before which the call is inserted.
        """
        return self._transfer(device, handle, type_, before, held=(0,), fetched=()).results[0]

    def fetch(
        self, device: str, handle: ir.Value, type_: ir.Type, before: ir.Operation
    ) -> ir.Value:
        """Build a call that copies a value from a device to the host; return the copy.

        Args:
            device: the device, as ``platform:id``.
            handle: handle of the value, which stays valid.
            type_: type of the value.
            before: operation before which the call is inserted.
        """
        return self._transfer(device, handle, type_, before, held=(0,), fetched=(0,)).results[0]

    def release(self, handle: ir.Value, anchors: Sequence[ir.Value]) -> None:
        """Build a call that releases a handle, at the current insertion point.

        At least one variant must have been made: the call, of kind ``release``, has the declaration
        of a variant as callee.

        Args:
            handle: the handle, whose value the runtime may then free.
            anchors: results of the operations after which the release must run.
        """
        callback.build_call(next(iter(self._variants.values())), "release", [handle, *anchors], [])

    def get_or_make_variant(
        self, name: str, held: Sequence[int], fetched: Sequence[int], kept: Sequence[int]
    ) -> str:
        """Return a region's variant for some operands and results; make it if needed.

        Args:
            name: symbol of the region's declaration.
            held: indices of the operands that are handles.
            fetched: indices of the region's results that the variant returns as values, first.
            kept: indices of the region's results that the variant returns as handles, after the
                values.

        Returns:
            the symbol of the variant's declaration.
        """
        results = self._declared[name].function_type.results
        return self._make_variant(
            (name, tuple(held), tuple(fetched), tuple(kept)),
            held,
            [results[i] for i in fetched] + [self._handle] * len(kept),
            {"held": held, "fetched": fetched, "kept": kept},
        )

    def get_or_make_variant_with_handles(self, name: str, held: Sequence[int]) -> str:
        """Return a variant that takes more operands as handles; make it if needed.

        Args:
            name: symbol of the declaration of the region or of a variant.
            held: indices of further operands that are handles, tokens not counted.

        Returns:
            the symbol of the variant's declaration.
        """
        old = self._declared[name]
        places = sorted({*(old.find_indices("held") or ()), *held})
        results = old.function_type.results
        return self._make_variant((name, tuple(held)), held, results, {"held": places})

    def _make_variant(
        self,
        key: tuple[Any, ...],
        held: Sequence[int],
        results: Sequence[ir.Type],
        places: Mapping[str, Sequence[int]],
    ) -> str:
        """Copy a nested module and its declaration, with handles among the types.

        If the variant exists already, nothing is copied.

        Args:
            key: key that identifies the variant; its first element is the symbol of the declaration
                that is copied.
            held: indices of the operands that become handles.
            results: types of the variant's results.
            places: new values of the declaration's attributes ``held``, ``fetched`` and ``kept``,
                lists of indices; attributes that are left out are copied.

        Returns:
            the symbol of the variant's declaration.
        """
        if key in self._variants:
            return self._variants[key]
        name = key[0]
        old = self._declared[name]
        inputs = [
            self._handle if i in held else each for i, each in enumerate(old.function_type.inputs)
        ]
        module_name = make_unique_symbol(self._module, old.module or name)
        nested = self._modules[old.module or ""]
        module = nested.clone(ip=ir.InsertionPoint(nested))
        module.attributes["sym_name"] = ir.StringAttr.get(module_name)
        with ir.InsertionPoint(old.operation), old.operation.location:
            declaration = callback.build_func(
                make_unique_symbol(self._module, name),
                inputs,
                results,
                python=string_attribute(old.operation, "python"),
                site=string_attribute(old.operation, "site"),
                id=self._next_id(),
                module=module_name,
            )
        _set_indices(declaration, **{**_find_indices(old), **places})
        self._modules[module_name] = module
        self._declared[declaration.sym_name] = declaration
        self._variants[key] = declaration.sym_name
        return declaration.sym_name

    def build_call(
        self, name: str, operands: Sequence[ir.Value], before: ir.Operation
    ) -> ir.Operation:
        """Build a pure call of a region or a variant, which XLA must not merge or hoist.

        Args:
            name: symbol of the declaration.
            operands: the operands, values or handles.
            before: operation before which the call is inserted.
        """
        with ir.InsertionPoint(before), before.location:
            results = self._declared[name].function_type.results
            call = callback.build_call(name, "pure", operands, results).operation
        # Each handle has one owner: a call that makes a handle must not be merged or hoisted.
        call.attributes[callback.STAYS] = ir.UnitAttr.get()
        return call

    def finish(self) -> bool:
        """Erase nested modules that are not called, and renumber the remaining modules.

        The ids of their declarations become consecutive again. Call this method once, at the end of
        a pass.

        Returns:
            whether variants were made; if not, nothing is erased or renumbered.
        """
        if not self._variants:
            return False
        called = {
            symbol_attribute(op)
            for op in list_operations(self._module.operation)
            if op.name == "callback.call"
        }
        for name, declaration in list(self._declared.items()):
            if name not in called:
                self._modules.pop(declaration.module or "").erase()
                declaration.operation.erase()
                del self._declared[name]
        ordered = sorted(self._declared.values(), key=lambda each: each.id)
        for number, declaration in enumerate(ordered, self._first_id):
            declaration.operation.attributes["id"] = make_i64(number)
        return True

    def _transfer(
        self,
        device: str,
        value: ir.Value,
        type_: ir.Type,
        before: ir.Operation,
        held: Sequence[int],
        fetched: Sequence[int],
    ) -> ir.Operation:
        """Build a call of an identity function that runs on a device; return the call.

        Its argument or its result is a handle, so the call copies an array to or from the device,
        or makes a second handle. The nested module with the function is made once for each device,
        type and kind of copy.

        Args:
            device: the device, as ``platform:id``.
            value: the argument, an array on the host or a handle.
            type_: type of the array.
            before: operation before which the call is inserted.
            held: ``(0,)`` if the argument is a handle, otherwise empty.
            fetched: ``(0,)`` if the result is an array on the host, empty if it is a handle.
        """
        key = (device, type_, tuple(held), tuple(fetched))
        if key not in self._variants:
            with ir.InsertionPoint.at_block_begin(self._module.body), before.location:
                name = make_unique_symbol(self._module, "region_transfer")
                nested = ir.Operation.create(
                    "builtin.module",
                    regions=1,
                    attributes={
                        "sym_name": ir.StringAttr.get(name),
                        "bellhop.device": ir.StringAttr.get(device),
                    },
                )
                body = nested.regions[0].blocks.append()
                with ir.InsertionPoint(body):
                    main = func.FuncOp("main", ([type_], [type_]), visibility="public")
                    with ir.InsertionPoint(main.add_entry_block()):
                        func.ReturnOp(list(main.regions[0].blocks[0].arguments))
                inside = type_ if not held else self._handle
                outside = type_ if fetched else self._handle
                declaration = callback.build_func(
                    make_unique_symbol(self._module, "transfer"),
                    [inside],
                    [outside],
                    python="transfer",
                    site=source_line(before),
                    id=self._next_id(),
                    module=name,
                )
            _set_indices(declaration, held=held, fetched=fetched, kept=() if fetched else (0,))
            self._modules[name] = nested
            self._declared[declaration.sym_name] = declaration
            self._variants[key] = declaration.sym_name
        return self.build_call(self._variants[key], [value], before)

    def _next_id(self) -> int:
        """Return the first id above the ids of all ``callback.func`` of the module."""
        # Callbacks are counted as well, until `finish` renumbers the regions.
        return 1 + max(each.id for each in callback.find_declarations(self._module).values())


def _find_indices(declaration: callback.FuncOp) -> dict[str, Sequence[int]]:
    """Return a declaration's attributes ``held``, ``fetched`` and ``kept``, by name.

    They are lists of indices. Attributes that the declaration lacks are missing in the result.
    """
    found = {name: declaration.find_indices(name) for name in ("held", "fetched", "kept")}
    return {name: places for name, places in found.items() if places is not None}


def _set_indices(declaration: callback.FuncOp, **places: Sequence[int]) -> None:
    """Set attributes of a declaration, by name, such as ``held``, to lists of indices."""
    for name, of_name in places.items():
        declaration.operation.attributes[name] = ir.DenseI64ArrayAttr.get(list(of_name))
