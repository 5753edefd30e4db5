"""Rough cost estimates of operations, to decide whether concurrency pays off."""

import math
from collections.abc import Callable, Mapping

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import constant_integer, find_producer, string_attribute, symbol_attribute
from bellhop_mlir.dialects.callback_kinds import KINDS

# Minimum number of elementary operations that is worth a thread or a custom call.
WORTHWHILE = 1e5
# Cost of calls, circuits and loops with a dynamic trip count, which may take long.
_UNKNOWN = math.inf

_FREE = frozenset(
    f"stablehlo.{name}" for name in ("constant", "iota", "reshape", "bitcast_convert", "return")
)
# Elementary operations for each element of the operands.
_PER_OPERAND = {
    "stablehlo.reduce": 1,
    "stablehlo.reduce_window": 10,
    "stablehlo.sort": 30,
    "stablehlo.fft": 30,
    "chlo.top_k": 30,
}
_CUBIC = ("stablehlo.cholesky", "stablehlo.triangular_solve")
# Custom calls that do nothing.
_ANNOTATIONS = ("Sharding", "annotate_device_placement")


def make_cost_estimator(functions: Mapping[str, ir.Operation]) -> Callable[[ir.Operation], float]:
    """Make a function that estimates the run time of an operation on the host.

    The estimate is a number of elementary operations, such as additions of two numbers. It is
    infinite for operations that may take long: callbacks that the program waits for, except of kind
    ``debug``, circuits (``quantum.begin``), loops with a dynamic trip count, unknown custom calls,
    and unknown or recursive functions. A callback of kind ``debug``, ``tap``, ``start`` or
    ``release`` costs 1000.

    Args:
        functions: the ``func.func`` operations of the module, by symbol. They must not change while
            the estimator is used, which remembers their costs.
    """
    return _CostEstimator(functions).estimate


class _CostEstimator:
    """Estimates costs for `make_cost_estimator`, and remembers the costs of functions.

    Args:
        functions: the ``func.func`` operations of the module, by symbol.
    """

    def __init__(self, functions: Mapping[str, ir.Operation]) -> None:
        self._functions = functions
        self._by_function: dict[str, float] = {}

    def estimate(self, op: ir.Operation) -> float:
        """Estimate the cost of an operation, with nested operations and callees.

        The cost is a number of elementary operations, or infinite, as `make_cost_estimator` says.
        """
        name = op.name
        if name in ("func.call", "callback.accelerate", "stablehlo.composite"):
            return self._estimate_call(
                symbol_attribute(op, "decomposition" if "composite" in name else "callee")
            )
        if name == "callback.call":
            kind = KINDS[string_attribute(op, "kind")]
            return 1e3 if kind.only_reports or not kind.is_awaited else _UNKNOWN
        if name == "quantum.begin":
            return _UNKNOWN
        if name == "stablehlo.custom_call":
            return _custom_call_cost(op)
        if name == "stablehlo.while":
            return max(1, self._estimate_regions(op, sum)) * _count_iterations(op)
        if name in ("stablehlo.case", "stablehlo.if"):
            return self._estimate_regions(op, max)
        if name == "func.func":
            return self._estimate_regions(op, sum)
        return 0 if name in _FREE else _own_cost(op)

    def _estimate_regions(
        self, op: ir.Operation, together: Callable[[list[float]], float]
    ) -> float:
        """Estimate the cost of the blocks that an operation contains.

        ``together`` combines the costs of the blocks: ``sum`` if all run, ``max`` if one runs.
        """
        return together(
            [
                sum(self.estimate(each.operation) for each in block.operations)
                for region in op.regions
                for block in region.blocks
            ]
            or [0]
        )

    def _estimate_call(self, name: str) -> float:
        """Estimate the cost of the function with a symbol, and remember it.

        Infinite for functions that are unknown or recursive.
        """
        if name not in self._by_function:
            # Initial value, for recursive functions.
            self._by_function[name] = _UNKNOWN
            function = self._functions.get(name)
            if function is not None:
                self._by_function[name] = self._estimate_regions(function, sum)
        return self._by_function[name]


def _own_cost(op: ir.Operation) -> float:
    """Estimate the cost of an operation from its shapes, without nested operations.

    Usually the number of elements of the results; more for operations such as matrix products,
    sorts and reductions.
    """
    operand_sizes = [count_elements(value.type) for value in op.operands]
    result_size = sum(count_elements(value.type) for value in op.results)
    if op.name == "stablehlo.dot_general":
        # For (m, k) and (k, n), the product of sizes m k * k n / (m n) is k squared.
        return (
            2 * result_size * math.sqrt(operand_sizes[0] * operand_sizes[1] / max(1, result_size))
        )
    if op.name == "stablehlo.convolution":
        return result_size * operand_sizes[1]
    if op.name in _CUBIC:
        return _cubic_cost(op)
    return max(result_size, _PER_OPERAND.get(op.name, 0) * sum(operand_sizes))


def _custom_call_cost(op: ir.Operation) -> float:
    """Estimate the cost of a ``stablehlo.custom_call``.

    Zero for JAX's annotations, cubic in the size of the largest matrix for LAPACK, infinite for all
    other targets.
    """
    target = string_attribute(op, "call_target_name")
    if target in _ANNOTATIONS:
        return 0
    return _cubic_cost(op) if target.startswith("lapack_") else _UNKNOWN


def _cubic_cost(op: ir.Operation) -> float:
    """Return n ** 1.5 for the largest number n of elements of an operand or result.

    This is m ** 3 for square matrices of size m.
    """
    return float(max(count_elements(value.type) for value in (*op.operands, *op.results))) ** 1.5


def count_elements(type_: ir.Type) -> int:
    """Return the number of elements of a tensor type; 0 for a token."""
    # Tokens have no elements.
    if not isinstance(type_, ir.RankedTensorType):
        return 0
    return math.prod(ir.RankedTensorType(type_).shape)


def _count_iterations(loop: ir.Operation) -> float:
    """Estimate the trip count of a loop from constants in its condition.

    JAX's loops with a static trip count compare a counter, which starts at a constant, with a
    constant. A counter may count up or down; its step is taken to be 1. Infinite if the loop does
    not compare constants.
    """
    block = loop.regions[0].blocks[0]
    *_, end = (op.operation for op in block.operations)
    compare = find_producer(end.operands[0])
    if compare is None or compare.name != "stablehlo.compare":
        return _UNKNOWN
    starts = dict(zip(block.arguments, loop.operands, strict=True))
    left, right = (constant_integer(starts.get(each, each)) for each in compare.operands)
    return _UNKNOWN if left is None or right is None else abs(right - left)
