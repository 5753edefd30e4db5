"""convert-callback-to-runtime: convert callback calls to custom calls."""

from dataclasses import dataclass

from bellhop_mlir._bindings import ir
from bellhop_mlir._call_graph import find_functions_containing, iterate_references
from bellhop_mlir._runtime_calls import RuntimeCallBuilder
from bellhop_mlir._walk import (
    find_functions,
    find_operations,
    function_type,
    list_operations,
    replace_operation,
    set_function_type,
    symbol_attribute,
    types_of_values,
)
from bellhop_mlir.dialects import callback
from bellhop_mlir.dialects._attributes import make_i64
from bellhop_mlir.errors import PassError
from bellhop_mlir.passes import Pass

TABLE = "tensor<2xui32>"
TABLE_MARK = "bellhop.table"

# Operations that call a function with their operands.
_CALLS = ("func.call", "stablehlo.composite")


@dataclass(frozen=True)
class ConvertCallbackToRuntime(Pass):
    """Convert ``callback.call`` and ``quantum.seed`` to custom calls.

    The runtime finds the Python function of a call in the table of callbacks, which the caller
    passes to each run of the program. This pass adds the table as an operand of ``@main``, of the
    custom calls and of the functions between them.

    Before::

        "callback.func"() {sym_name = "f", id = 0 : i64, ...} : () -> ()
        func.func public @main(%x: tensor<f64>) -> tensor<f64> {
          %y = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
          return %y : tensor<f64>
        }

    After::

        func.func public @main(%x: tensor<f64>, %table: tensor<2xui32> {bellhop.table})
            -> tensor<f64> {
          %y = stablehlo.custom_call @bellhop_callback(%table, %x)
              {backend_config = {index = 0 : i64, program = 7 : i64, python = "f"}, ...}
              : (tensor<2xui32>, tensor<f64>) -> tensor<f64>
          return %y : tensor<f64>
        }

    ``CallbackKind.custom_call`` names the custom call of each kind: calls of kind ``tap`` become
    ``bellhop_tap``, calls of kind ``native`` become ``bellhop_native``, which does not take the
    table, calls of kind ``pure``, ``io`` and ``debug`` become ``bellhop_callback``.

    ``@main`` always gets the table as last operand, so that all programs have the same interface;
    other functions get it if they or their callees need it.  The attribute ``bellhop.table`` marks
    it.

    Args:
        program: key of the program in the table, which may have callbacks of several programs.

    Preconditions: there is a ``@main``.

    Errors: ``callback.accelerate``, and operations that refer to a function that calls Python but
    cannot pass the table.
    """

    program: int = 0

    def apply(self, module: ir.Module) -> None:
        """Convert callback calls to custom calls, in place.

        Raises:
            PassError: if there is no ``@main``, if a region is left, for a call inside of
                ``jax.shard_map`` that needs the table, or if an operation cannot pass the table to
                a function.
        """
        by_name = find_functions(module)
        _check_module(module, by_name)
        declared = callback.find_declarations(module)
        needing = {"main", *find_functions_containing(module, _reads_table)}
        tables = {name: _get_or_add_table(by_name[name]) for name in by_name if name in needing}
        calls = RuntimeCallBuilder()
        for op in _find_calls_without_table(module):
            self._convert(op, None, declared, calls)
        for name, table in tables.items():
            for op in list_operations(by_name[name]):
                if op.name == "callback.call":
                    _check_visible(op)
                    self._convert(callback.CallOp(op), table, declared, calls)
                elif op.name == "quantum.seed":
                    _check_visible(op)
                    calls.replace(
                        op, "bellhop_seed", [table], {"circuit": op.attributes["circuit"]}
                    )
                elif not needing.isdisjoint(iterate_references(op)):
                    _check_visible(op)
                    _pass_table(op, table)
        for declaration in declared.values():
            declaration.operation.erase()

    def _convert(
        self,
        op: callback.CallOp,
        table: ir.Value | None,
        declared: dict[str, callback.FuncOp],
        calls: RuntimeCallBuilder,
    ) -> None:
        """Replace one ``callback.call`` by the custom call of its kind.

        Args:
            op: the call, which is erased.
            table: the table operand of the function that contains the call; None for a call of a
                kind that does not take the table.
            declared: declarations of the module, by symbol.
            calls: builder of the custom calls.
        """
        declaration = declared[op.callee]
        leading = [table] if op.traits.takes_table else []
        calls.replace(
            op.operation,
            op.traits.custom_call,
            [*leading, *op.operands],
            {
                "program": make_i64(self.program),
                "index": make_i64(declaration.id),
                "python": declaration.attributes["python"],
            },
            has_side_effect=not op.traits.is_pure or callback.STAYS in op.attributes,
            # The table precedes all operands, and the token precedes all arguments.
            aliases=[
                (len(leading) + op.is_ordered + argument, op.is_ordered + result)
                for argument, result in op.aliases
            ],
        )


def _reads_table(op: ir.Operation) -> bool:
    """Return whether an operation is converted to a call that takes the table of callbacks."""
    if op.name == "callback.call":
        return callback.CallOp(op).traits.takes_table
    return op.name == "quantum.seed"


def _find_calls_without_table(module: ir.Module) -> list[callback.CallOp]:
    """Return each ``callback.call`` of a kind that does not need the table of callbacks."""
    calls = map(callback.CallOp, find_operations(module.operation, "callback.call"))
    return [call for call in calls if not call.traits.takes_table]


def _check_module(module: ir.Module, by_name: dict[str, ir.Operation]) -> None:
    """Raise `PassError` unless a module has ``@main`` and no ``callback.accelerate``.

    ``by_name`` has the functions of the module by symbol.
    """
    if "main" not in by_name:
        raise PassError("convert-callback-to-runtime needs a function @main")
    for op in find_operations(module.operation, "callback.accelerate"):
        raise PassError(
            f"the region @{symbol_attribute(op)} is left: convert-callback-to-runtime needs "
            "convert-accelerate-to-runtime to run before it"
        )


def _check_visible(call: ir.Operation) -> None:
    """Raise `PassError` if a call that needs the table is inside of ``jax.shard_map``.

    The body of ``jax.shard_map``, a ``sdy.manual_computation``, cannot use the table of callbacks,
    which is an argument of the function around it.

    Args:
        call: an operation that needs the table, or refers to a function that needs it.
    """
    parent = call.parent.operation
    while parent.name != "func.func":
        if parent.name == "sdy.manual_computation":
            raise PassError(
                f"{_describe_call(call)} is in {parent.name}, which is not supported. "
                "Call it outside jax.shard_map."
            )
        parent = parent.parent.operation


def _describe_call(op: ir.Operation) -> str:
    """Describe a call for the error of `_check_visible`."""
    if op.name == "quantum.seed":
        return "a circuit with random outcomes"
    return f"the call of @{next(iterate_references(op))}"


def _get_or_add_table(function: ir.Operation) -> ir.Value:
    """Return a function's argument for the table of callbacks; add it if it is missing.

    It is the last argument, of type ``tensor<2xui32>``, with the attribute ``bellhop.table``.
    """
    block = function.regions[0].blocks[0]
    old = function_type(function)
    attributes = (
        list(function.attributes["arg_attrs"])
        if "arg_attrs" in function.attributes
        else [ir.DictAttr.get({})] * len(old.inputs)
    )
    if attributes and TABLE_MARK in attributes[-1]:
        return block.arguments[len(block.arguments) - 1]
    table_type = ir.Type.parse(TABLE)
    set_function_type(function, [*old.inputs, table_type], old.results)
    mark = ir.DictAttr.get({TABLE_MARK: ir.UnitAttr.get()})
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([*attributes, mark])
    return block.add_argument(table_type, function.location)


def _pass_table(op: ir.Operation, table: ir.Value) -> None:
    """Replace a call by one that passes the table of callbacks as last operand.

    Args:
        op: the call of a function that takes the table; nothing happens if it passes the table
            already.
        table: the table operand of the function that contains the call.

    Raises:
        PassError: for an operation that refers to a function in another way than a call.
    """
    if op.name not in _CALLS:
        raise PassError(
            f"{op.name} refers to a function that calls Python "
            f"(@{', @'.join(iterate_references(op))}), which is not supported. Call the function "
            "outside of this operation."
        )
    if len(op.operands) and op.operands[len(op.operands) - 1] == table:
        return
    attributes = dict(op.attributes.items())
    if "arg_attrs" in attributes:
        attributes["arg_attrs"] = ir.ArrayAttr.get([*attributes["arg_attrs"], ir.DictAttr.get({})])
    with ir.InsertionPoint(op), op.location:
        call = ir.Operation.create(
            op.name,
            results=types_of_values(op.results),
            operands=[*op.operands, table],
            attributes=attributes,
        )
    replace_operation(op, list(call.results))
