"""Rewriting of assignment expressions (``:=``) in the conditions of ``while``.

    while (n := f(n)) > 1:       while True:
        ...                          if not (n := f(n)) > 1:
                                         break
                                     ...

AutoGraph turns the operands of ``and``, ``or`` and conditional expressions into functions, where
``:=`` would assign a local variable, so there it raises an error.
"""

import ast
from typing import Any, NoReturn

from malt.pyct import anno

from bellhop.errors import AutoGraphError


def transform(node: ast.AST) -> Any:
    """Rewrite the assignment expressions (``:=``) in a function's loop conditions.

    This is a step of the conversion of a function, before AutoGraph's own steps. It changes the
    syntax tree `node`, and returns it.

    Raises:
        AutoGraphError: for ``:=`` in an operand of ``and`` or ``or``, or in ``a`` or ``b`` of
            ``a if test else b``.
    """
    return _AssignmentExpressions().visit(node)


class _AssignmentExpressions(ast.NodeTransformer):
    """Syntax tree visitor that rewrites ``while`` loops with ``:=`` in their conditions.

    It raises `AutoGraphError` for ``:=`` in operands of ``and`` and ``or``, and in both values of a
    conditional expression, which AutoGraph turns into functions later.
    """

    def visit_While(self, node: ast.While) -> Any:
        """Replace a ``while`` with ``:=`` in its test by ``while True`` and a ``break``.

        ``if not test: break`` becomes the first statement of the body. Loops without ``:=`` in the
        test are kept.
        """
        self.generic_visit(node)
        if _find_first(node.test) is None:
            return node
        leave = ast.If(
            test=ast.UnaryOp(op=ast.Not(), operand=node.test), body=[ast.Break()], orelse=[]
        )
        ast.fix_missing_locations(ast.copy_location(leave, node))
        anno.copyanno(node, leave, anno.Basic.ORIGIN)
        node.test = ast.copy_location(ast.Constant(value=True, kind=None), node.test)
        node.body.insert(0, leave)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """Raise `AutoGraphError` if an operand of ``and`` or ``or`` contains ``:=``."""
        for part in node.values:
            _check_absent(part, node, "an expression with 'and' or 'or'")
        return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """Raise `AutoGraphError` if a value of a conditional expression contains ``:=``."""
        for part in (node.body, node.orelse):
            _check_absent(part, node, "a conditional expression")
        return self.generic_visit(node)


def _find_first(node: ast.AST) -> ast.NamedExpr | None:
    """Return the first ``:=`` expression in a syntax tree, or None."""
    return next((part for part in ast.walk(node) if isinstance(part, ast.NamedExpr)), None)


def _check_absent(part: ast.AST, node: ast.AST, label: str) -> NoReturn | None:
    """Raise `AutoGraphError` if an expression contains ``:=``.

    Args:
        part: the expression, such as an operand of ``and``.
        node: the expression that contains `part`, for the source line in the error.
        label: description of `node` for the error, such as ``"a conditional expression"``.
    """
    found = _find_first(part)
    if found is None:
        return None
    origin = anno.getanno(node, anno.Basic.ORIGIN, default=None)
    site = f" ({origin.loc.filename}:{origin.loc.lineno})" if origin is not None else ""
    raise AutoGraphError(
        f"the assignment ({ast.unparse(found)}) in {label}{site} is not converted by autograph. "
        "Write the assignment on a line of its own."
    )
