"""convert-callback-to-runtime: callback calls become custom calls."""

from dataclasses import dataclass
from typing import ClassVar

from bellhop_mlir._bindings import ir
from bellhop_mlir._runtime_calls import custom_call, i64
from bellhop_mlir._walk import callees, function_type, functions, named, replace, symbol
from bellhop_mlir.dialects import callback

TABLE = "tensor<2xui32>"


@dataclass(frozen=True)
class ConvertCallbackToRuntime:
    """Replace ``callback.call`` by ``bellhop_callback`` and pass the table along.

    Before::

        "callback.func"() {sym_name = "f", id = 0 : i64, ...} : () -> ()
        func.func public @main(%x: tensor<f64>) -> tensor<f64> {
          %y = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
          return %y : tensor<f64>
        }

    After::

        func.func public @main(%x: tensor<f64>, %table: tensor<2xui32>) -> tensor<f64> {
          %y = stablehlo.custom_call @bellhop_callback(%table, %x)
              {backend_config = {index = 0 : i64, program = 7 : i64}, ...}
          return %y : tensor<f64>
        }

    ``@main`` always gains the last operand, so that every program is called alike; other
    functions gain it where they, or functions that they call, need it.
    """

    name: ClassVar[str] = "convert-callback-to-runtime"

    program: int = 0

    def apply(self, module: ir.Module) -> None:
        """Change ``module`` in place."""
        declared = callback.declarations(module)
        by_name = functions(module)
        tables = {
            name: _add_operand(by_name[name]) for name in sorted(_need_table(by_name) | {"main"})
        }
        for name, table in tables.items():
            for op in named(by_name[name], "func.call"):
                if symbol(op) in tables:
                    _pass_table(op, table)
            for op in named(by_name[name], "callback.call"):
                self._convert(callback.CallOp(op), table, declared)
        for declaration in declared.values():
            declaration.operation.erase()

    def _convert(
        self, op: callback.CallOp, table: ir.Value, declared: dict[str, callback.FuncOp]
    ) -> None:
        operands = list(op.operands)
        with ir.InsertionPoint(op.operation), op.operation.location:
            call = custom_call(
                "bellhop_callback",
                [table, *operands],
                [value.type for value in op.results],
                {"program": i64(self.program), "index": i64(declared[op.callee].id)},
                has_side_effect=op.kind != "pure",
            )
        replace(op.operation, list(call.results))


def _need_table(by_name: dict[str, ir.Operation]) -> set[str]:
    needing = {name for name, op in by_name.items() if named(op, "callback.call")}
    called = {name: callees(op) for name, op in by_name.items()}
    while True:
        more = {name for name in by_name if called[name] & needing} - needing
        if not more:
            return needing
        needing |= more


def _add_operand(function: ir.Operation) -> ir.Value:
    table_type = ir.Type.parse(TABLE)
    old = function_type(function)
    function.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get([*old.inputs, table_type], old.results)
    )
    if "arg_attrs" in function.attributes:
        attributes = ir.ArrayAttr(function.attributes["arg_attrs"])
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([*attributes, ir.DictAttr.get({})])
    block = function.regions[0].blocks[0]
    return block.add_argument(table_type, function.location)


def _pass_table(op: ir.Operation, table: ir.Value) -> None:
    with ir.InsertionPoint(op), op.location:
        call = ir.Operation.create(
            "func.call",
            results=[value.type for value in op.results],
            operands=[*op.operands, table],
            attributes={"callee": op.attributes["callee"]},
        )
    replace(op, list(call.results))
