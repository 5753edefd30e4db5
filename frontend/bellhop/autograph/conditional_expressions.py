"""Conditional expressions, also those that stand in another: ``a if p else (b if q else c)``."""

import ast
from typing import Any

from malt.converters.conditional_expressions import ConditionalExpressionTransformer


class _NestedConditionals(ConditionalExpressionTransformer):  # type: ignore[misc]
    def visit_IfExp(self, node: Any) -> Any:
        # The text of the condition is made of it, so it comes last.
        for part in ("body", "orelse"):
            setattr(node, part, self.visit(getattr(node, part)))
        call = super().visit_IfExp(node)
        call.args[0] = self.visit(call.args[0])
        return call


def transform(node: ast.AST, context: Any) -> Any:
    """Rewrite the conditional expressions of a function; AutoGraph defines the interface."""
    return _NestedConditionals(context).visit(node)
