"""seed-regions: pass a random seed to regions that draw random numbers."""

from bellhop_mlir._bindings import ir, stablehlo
from bellhop_mlir._call_graph import find_functions_containing, iterate_references
from bellhop_mlir._walk import (
    find_functions,
    find_operations,
    function_type,
    make_unique_symbol,
    replace_operation,
    set_function_type,
    symbol_attribute,
    types_of_values,
    walk_operations,
)
from bellhop_mlir.dialects import callback, quantum
from bellhop_mlir.dialects._attributes import make_i64
from bellhop_mlir.errors import PassError
from bellhop_mlir.passes import Pass

_CALLS = ("func.call", "callback.accelerate")
_WORDS = 4
_ALGORITHM = "#stablehlo<rng_algorithm THREE_FRY>"


class SeedRegions(Pass):
    """Pass a seed to regions that draw random numbers, and thread it through them.

    A region is a ``callback.accelerate``, which runs a function on another device.

    Before::

        %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} ...
        func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
          %s = "quantum.seed"() {circuit = 0 : i64} : () -> tensor<4xui32>
          ...
        }

    After::

        %r = "quantum.seed"() {circuit = 1 : i64} : () -> tensor<4xui32>
        %y, %n = "callback.accelerate"(%x, %r) {callee = @accelerate_cuda_0__f_0, ...} ...
        func.func private @accelerate_cuda_0__f_0(%x: tensor<f64>, %r: tensor<4xui32>)
            -> (tensor<f64>, tensor<4xui32>) {
          %k = stablehlo.bitcast_convert (stablehlo.reshape %r) : ... -> tensor<2xui64>
          %_, %w = stablehlo.rng_bit_generator %k, algorithm = THREE_FRY : ... tensor<8xui32>
          %n = stablehlo.slice %w [0:4]
          %s = stablehlo.slice %w [4:8]
          ...
        }

    The program draws one seed for each run of a region, and the device computes two seeds from it
    for each ``quantum.seed``: the first is the next seed, the second the circuit's.  Loops carry
    the seed, conditionals return it, and functions and regions inside take it and return the next
    seed.  The condition of a loop cannot return a seed: if it draws random numbers, each iteration
    computes two seeds, for the condition and for the body.  The region is pure after the pass.

    Preconditions: inline-accelerate ran before, so that all regions are on other devices.

    Raises an error for operations that cannot return a seed, such as ``sdy.manual_computation``.
    """

    needs = ("callback.accelerate", "quantum.seed")

    def apply(self, module: ir.Module) -> bool:
        """Pass seeds to regions that draw random numbers; return False if there are none.

        Raises:
            PassError: if an operation that contains a random operation cannot return a seed.
        """
        drawing = find_functions_containing(module, _is_random_operation)
        regions = [
            region.operation
            for region in callback.find_host_regions(module)
            if region.callee in drawing
        ]
        seeded = _SeededVariants(module, drawing)
        numbers = [op.attributes["circuit"].value for op in seeded.seeds]
        for number, op in enumerate(regions, max(numbers, default=0) + 1):
            with ir.InsertionPoint(op), op.location:
                [seed] = quantum.seed([], circuit=make_i64(number))
            seeded.call(op, seed)
        return bool(regions)


class _SeededVariants:
    """Makes variants of functions that take a seed last and return the next seed.

    A random operation is a ``quantum.seed``, from which a circuit draws its random numbers.

    Args:
        module: the module, to which the variants are added.
        drawing: symbols of functions that contain random operations, directly or in callees.

    Attributes:
        seeds: the ``quantum.seed`` operations of the module, before variants are made.
    """

    def __init__(self, module: ir.Module, drawing: set[str]) -> None:
        self._module = module
        self._drawing = drawing
        self._variants: dict[str, str] = {}
        self._type = ir.Type.parse(quantum.SEED)
        self.seeds = find_operations(module.operation, "quantum.seed")

    def call(self, op: ir.Operation, seed: ir.Value) -> ir.Value:
        """Replace a call by a call of a variant of the callee that takes a seed.

        Args:
            op: the ``func.call`` or ``callback.accelerate``, which is erased.
            seed: the seed, ``tensor<4xui32>``, which becomes the last operand.

        Returns:
            the next seed, the last result of the new call.
        """
        callee = self._get_or_make_variant(symbol_attribute(op))
        attributes = {**dict(op.attributes.items()), "callee": ir.FlatSymbolRefAttr.get(callee)}
        return _rebuild(op, [*op.operands, seed], [self._type], attributes)

    def _get_or_make_variant(self, name: str) -> str:
        """Return the symbol of a function's variant with a seed; make it if needed.

        The variant takes the seed as last argument, and returns the next seed as last result.

        Args:
            name: symbol of the function, which stays in the module.
        """
        if name in self._variants:
            return self._variants[name]
        old = find_functions(self._module)[name]
        function = old.clone(ip=ir.InsertionPoint(old))
        variant = self._variants[name] = make_unique_symbol(self._module, name)
        function.attributes["sym_name"] = ir.StringAttr.get(variant)
        block = function.regions[0].blocks[0]
        self._thread_seed(block, block.add_argument(self._type, function.location))
        type_ = function_type(old)
        set_function_type(function, [*type_.inputs, self._type], [*type_.results, self._type])
        for each in ("arg_attrs", "res_attrs"):
            if each in function.attributes:
                some = [*function.attributes[each], ir.DictAttr.get({})]
                function.attributes[each] = ir.ArrayAttr.get(some)
        return variant

    def _thread_seed(self, block: ir.Block, seed: ir.Value, *, returns: bool = True) -> None:
        """Thread a seed through the operations of a block that draw random numbers.

        Args:
            block: the block, which is changed in place.
            seed: the seed with which the block begins.
            returns: whether the block returns the next seed, as an additional last value.
        """
        *body, end = [op.operation for op in block.operations]
        for op in body:
            if not any(map(self._is_drawing, walk_operations(op))):
                continue
            with ir.InsertionPoint(op), op.location:
                seed = self._pass_seed(op, seed)
        if returns:
            with ir.InsertionPoint(end), end.location:
                _rebuild(end, [*end.operands, seed], [], dict(end.attributes.items()))

    def _is_drawing(self, op: ir.Operation) -> bool:
        """Return whether an operation or its callee draws random numbers.

        Nested operations are not checked.
        """
        return _is_random_operation(op) or not self._drawing.isdisjoint(iterate_references(op))

    def _pass_seed(self, op: ir.Operation, seed: ir.Value) -> ir.Value:
        """Replace an operation by one that takes its random numbers from a seed.

        A ``quantum.seed`` is replaced by the second seed of `_split_seed`; the first is the next
        seed. Calls, loops and conditionals are rebuilt to take the seed and return the next seed.

        Args:
            op: the operation, which draws random numbers and is erased.
            seed: the seed, ``tensor<4xui32>``.

        Returns:
            the next seed, for the operation that follows.

        Raises:
            PassError: for an operation that cannot return a seed.
        """
        if _is_random_operation(op):
            seed, words = _split_seed(seed)
            replace_operation(op, [words])
            return seed
        if op.name in _CALLS:
            return self.call(op, seed)
        attributes = dict(op.attributes.items())
        if op.name == "stablehlo.while":
            condition, body = (region.blocks[0] for region in op.regions)
            is_split = any(
                self._is_drawing(each)
                for part in condition.operations
                for each in walk_operations(part.operation)
            )
            for number, block in enumerate((condition, body)):
                start = block.add_argument(self._type, op.location)
                if is_split:
                    with ir.InsertionPoint.at_block_begin(block):
                        start = _split_seed(start)[number]
                self._thread_seed(block, start, returns=block is body)
            return _rebuild(op, [*op.operands, seed], [self._type], attributes)
        if op.name in ("stablehlo.case", "stablehlo.if"):
            for region in op.regions:
                self._thread_seed(region.blocks[0], seed)
            return _rebuild(op, list(op.operands), [self._type], attributes)
        raise PassError(
            f"a circuit with random outcomes inside of {op.name} is not supported in a region on "
            "another device. Call the circuit outside of the region."
        )


def _is_random_operation(op: ir.Operation) -> bool:
    """Return whether an operation is a ``quantum.seed``."""
    return op.name == "quantum.seed"


def _split_seed(seed: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Compute two independent seeds from a seed, at the current insertion point.

    All seeds are of type ``tensor<4xui32>``.
    """
    pairs = stablehlo.reshape(ir.Type.parse("tensor<2x2xui32>"), seed)
    state = stablehlo.bitcast_convert(ir.Type.parse("tensor<2xui64>"), pairs)
    drawn = ir.Operation.create(
        "stablehlo.rng_bit_generator",
        results=[state.type, ir.Type.parse(f"tensor<{2 * _WORDS}xui32>")],
        operands=[state],
        attributes={"rng_algorithm": ir.Attribute.parse(_ALGORITHM)},
    ).results[1]
    first, second = (
        stablehlo.slice(drawn, [start], [start + _WORDS], [1]) for start in (0, _WORDS)
    )
    return first, second


def _rebuild(
    op: ir.Operation,
    operands: list[ir.Value],
    more: list[ir.Type],
    attributes: dict[str, ir.Attribute],
) -> ir.Value | None:
    """Replace an operation by one with other operands and more results.

    Its regions move to the new operation.

    Args:
        op: the operation, which is erased.
        operands: the new operands.
        more: types of the additional results; may be empty only if ``op`` has no results, such as a
            terminator.
        attributes: attributes of the new operation.

    Returns:
        the last result of the new operation, which is an additional one if ``more`` is not empty;
        None if it has no results.
    """
    with ir.InsertionPoint(op), op.location:
        new = ir.Operation.create(
            op.name,
            results=[*types_of_values(op.results), *more],
            operands=operands,
            attributes=attributes,
            regions=len(op.regions),
        )
    for old, region in zip(op.regions, new.regions, strict=True):
        old.blocks[0].append_to(region)
    *results, last = list(new.results) or [None]
    replace_operation(op, results if more else [])
    return last
