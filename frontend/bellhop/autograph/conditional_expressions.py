"""Rewriting of conditional expressions, also nested conditional expressions."""

import ast
from typing import Any

from malt.converters.conditional_expressions import ConditionalExpressionTransformer


class _NestedConditionals(ConditionalExpressionTransformer):  # type: ignore[misc]
    """Syntax tree visitor that rewrites conditional expressions, innermost first.

    AutoGraph's own visitor does not rewrite nested expressions.
    """

    def visit_IfExp(self, node: Any) -> Any:
        """Rewrite ``a if test else b``, also nested, to a call of ``ag__.if_exp``."""
        # The rewriting stores the source of the condition, so the condition is rewritten last.
        for part in ("body", "orelse"):
            setattr(node, part, self.visit(getattr(node, part)))
        call = super().visit_IfExp(node)
        call.args[0] = self.visit(call.args[0])
        return call


def transform(node: ast.AST, context: Any) -> Any:
    """Rewrite ``a if test else b``, also nested, to calls of ``ag__.if_exp``.

    This is a step of AutoGraph's conversion of a function: it changes the syntax tree `node`, and
    returns it.
    """
    return _NestedConditionals(context).visit(node)
