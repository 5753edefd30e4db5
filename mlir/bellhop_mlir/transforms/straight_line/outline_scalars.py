"""outline-scalars: outline long scalar computations into functions."""

from collections.abc import Mapping
from dataclasses import dataclass

from bellhop_mlir._bindings import ir, stablehlo
from bellhop_mlir._block_partition import (
    OperationGroup,
    compute_inputs_and_outputs,
    find_blocks,
    outline_group,
)
from bellhop_mlir._walk import find_functions, list_operations, replace_operands, symbol_attribute
from bellhop_mlir.passes import Pass

# Operations that compute or select scalars.
_NAMES = (
    "abs",
    "add",
    "and",
    "atan2",
    "cbrt",
    "ceil",
    "clamp",
    "compare",
    "convert",
    "cosine",
    "divide",
    "exponential",
    "exponential_minus_one",
    "floor",
    "is_finite",
    "log",
    "log_plus_one",
    "logistic",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "not",
    "or",
    "power",
    "remainder",
    "reshape",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "select",
    "sign",
    "sine",
    "slice",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "xor",
)
# fmt: on
_SCALAR = frozenset(f"stablehlo.{name}" for name in _NAMES)


@dataclass(frozen=True)
class OutlineScalars(Pass):
    """Move long sequences of scalar operations into functions of 32 operations each.

    Before, with ``size=2``::

        %0 = stablehlo.sine %x : tensor<f64>
        %1 = stablehlo.multiply %0, %x : tensor<f64>
        %2 = stablehlo.sine %1 : tensor<f64>
        return %1, %2 : tensor<f64>, tensor<f64>

    After::

        %0 = stablehlo.optimization_barrier %x : tensor<f64>
        %1:2 = call @main_scalars_1(%0) {mhlo.frontend_attributes = {inlineable = "false",
            xla_cpu_small_call = "true"}} : (tensor<f64>) -> (tensor<f64>, tensor<1xf64>)
        %2:2 = stablehlo.optimization_barrier %1#0, %x : tensor<f64>, tensor<f64>
        %3:3 = call @main_scalars_2(%2#0, %2#1) {...}
        return %1#0, %3#0 : tensor<f64>, tensor<f64>

    XLA's CPU backend makes a kernel for each scalar with several uses, and recomputes in it
    everything that the scalar depends on.  For a chain of scalars, such as angles of unrolled
    gates, this is quadratic: 400 steps take 37 s.  A function ends the recomputation, and a call
    with XLA's attribute for small calls is one kernel: 0.8 s.  An XLA that does not know the
    attribute makes a kernel for each scalar, as without this pass.

    XLA may abort the process if such a call does not need one of its operands.  So a function also
    returns an element of each operand, which is unused but makes the operand needed even in
    ``0 * i``.  Operands pass a barrier, so that XLA does not propagate constants into the function.

    Args:
        size: maximum number of operations in a function, constants not counted.  Sequences that are
            not longer stay.

    Preconditions: none.  Constants stay in place, and are duplicated.
    """

    size: int = 32

    def apply(self, module: ir.Module) -> bool:
        """Outline long scalar computations, in place; return False if there are none."""
        is_scalar = _ScalarOperations(find_functions(module))
        changed = False
        for block in list(find_blocks(module)):
            if len(block.operations) <= self.size:
                continue
            parts, moving = self._partition_block(block, is_scalar)
            if not moving:
                continue
            compute_inputs_and_outputs(parts)
            for part in moving:
                _return_elements(part)
                _hide_operands(part)
            for number, part in reversed(list(enumerate(moving, 1))):
                outline_group(module, part, f"scalars_{number}", xla_cpu_small_call="true")
            changed = True
        return changed

    def _partition_block(
        self, block: ir.Block, is_scalar: "_ScalarOperations"
    ) -> tuple[list[OperationGroup], list[OperationGroup]]:
        """Partition a block into groups: scalar operations to outline, and all others.

        Args:
            block: the block, which does not change.
            is_scalar: returns whether an operation only computes a scalar.

        Returns:
            all groups in order; among them, the groups of scalar operations to outline, of at most
            ``size`` operations each. Inputs and outputs of the groups are still empty.
        """
        parts, moving = [OperationGroup()], []
        row: list[ir.Operation] = []
        for view in block.operations:
            op = view.operation
            if op.name == "stablehlo.constant":
                parts[-1].operations.append(op)
            elif is_scalar(op):
                row.append(op)
            else:
                if len(row) > self.size:
                    pieces = [
                        OperationGroup(row[start : start + self.size])
                        for start in range(0, len(row), self.size)
                    ]
                    moving += pieces
                    parts += [*pieces, OperationGroup()]
                else:
                    parts[-1].operations += row
                row = []
                parts[-1].operations.append(op)
        return parts, moving


def _return_elements(part: OperationGroup) -> None:
    """Add an element of each input to the outputs of a group.

    The group's function then returns it, so that XLA considers each operand as used. The new
    operations are put at the beginning of the group.
    """
    begin = part.operations[0]
    for value in list(part.inputs):
        tensor = ir.RankedTensorType(value.type)
        ones = [1] * tensor.rank
        with begin.location, ir.InsertionPoint(begin):
            element = (
                stablehlo.slice(value, [0] * tensor.rank, ones, ones)
                if ones
                else stablehlo.reshape(ir.RankedTensorType.get([1], tensor.element_type), value)
            )
        part.operations.insert(0, element.owner.operation)
        part.outputs[element] = None


def _hide_operands(part: OperationGroup) -> None:
    """Replace a group's inputs by results of an optimization barrier before it."""
    begin = part.operations[0]
    with begin.location, ir.InsertionPoint(begin):
        barrier = stablehlo.OptimizationBarrierOp(list(part.inputs))
    hidden = dict(zip(part.inputs, barrier.results, strict=True))
    for op in part.operations:
        replace_operands(op, hidden)
    part.inputs = dict.fromkeys(hidden.values())


class _ScalarOperations:
    """Predicate for operations that only compute a scalar.

    An instance is called with an operation, and returns a boolean; it caches the results for called
    functions. A scalar is an array with one element, of any rank.

    Args:
        functions: functions of the module, by symbol.
    """

    def __init__(self, functions: Mapping[str, ir.Operation]) -> None:
        self._functions = functions
        self._by_function: dict[str, bool] = {}

    def __call__(self, op: ir.Operation) -> bool:
        """Return whether an operation only computes a scalar, or calls such a function."""
        name = op.name
        if name == "func.call":
            # Calls with hints are outlined already.
            is_plain = "mhlo.frontend_attributes" not in op.attributes
            return is_plain and self._is_function_of_scalars(symbol_attribute(op))
        return (
            name in _SCALAR and _is_scalar_type(op.results[0].type) and not _is_returned_element(op)
        )

    def _is_function_of_scalars(self, name: str) -> bool:
        """Return whether a function, given by symbol, only computes scalars."""
        if name not in self._by_function:
            self._by_function[name] = all(
                op.name in ("stablehlo.constant", "func.return") or self(op)
                for op in list_operations(self._functions[name])
            )
        return self._by_function[name]


def _is_returned_element(op: ir.Operation) -> bool:
    """Return whether an operation was added by `_return_elements`.

    Such an operation is in a function that this pass has outlined before, takes an element of an
    argument, and only the function's ``return`` uses the element.
    """
    return (
        op.name in ("stablehlo.slice", "stablehlo.reshape")
        and isinstance(op.operands[0].owner, ir.Block)
        and all(use.owner.name == "func.return" for use in op.results[0].uses)
    )


def _is_scalar_type(type_: ir.Type) -> bool:
    """Return whether a tensor type has one element, an integer or a float, and any rank."""
    tensor = ir.RankedTensorType(type_)
    return all(size == 1 for size in tensor.shape) and isinstance(
        tensor.element_type, ir.FloatType | ir.IntegerType
    )
