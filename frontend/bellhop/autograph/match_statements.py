"""Rewriting of ``match`` statements on values to chains of ``if``.

    match x:                 value = x
        case 1 | 2: ...      if value == 1 or value == 2: ...
        case _ if y < 0:     elif y < 0: ...
        case _: ...          else: ...

Patterns that inspect the structure of an object are not supported.
"""

import ast
from collections.abc import Callable
from typing import Any

from malt.pyct import anno

from bellhop.errors import AutoGraphError


def transform(node: ast.AST) -> Any:
    """Rewrite the ``match`` statements of a function to chains of ``if``.

    This is a step of the conversion of a function, before AutoGraph's own steps. It changes the
    syntax tree `node`, and returns it.

    Raises:
        AutoGraphError: for a pattern that inspects the structure of an object.
    """
    return _Matches().visit(node)


class _Matches(ast.NodeTransformer):
    """Syntax tree visitor that rewrites ``match`` statements to chains of ``if``.

    There is one for each converted function. It stores the matched values in new variables,
    ``matched_1``, ``matched_2``, ...
    """

    def __init__(self) -> None:
        self._number = 0

    def visit_Match(self, node: ast.Match) -> Any:
        """Rewrite a ``match`` statement to an assignment and a chain of ``if``.

        ``match x:`` with ``case 1: a`` and ``case _: b`` becomes ``matched_1 = x`` and
        ``if matched_1 == 1: a`` with ``else: b``.

        Raises:
            AutoGraphError: for an unsupported pattern.
        """
        self.generic_visit(node)
        self._number += 1
        name = f"matched_{self._number}"
        value: Callable[[], ast.expr] = lambda: ast.Name(id=name, ctx=ast.Load())
        store: ast.stmt = ast.Assign(
            targets=[ast.Name(id=name, ctx=ast.Store())], value=node.subject
        )
        chain: list[ast.stmt] = []
        for case in reversed(node.cases):
            test = _pattern_condition(case.pattern, value, node)
            if case.guard is not None:
                test = case.guard if test is None else _join_tests(ast.And(), [test, case.guard])
            chain = case.body if test is None else [ast.If(test=test, body=case.body, orelse=chain)]
        statements = [store, *chain]
        for statement in statements:
            ast.fix_missing_locations(ast.copy_location(statement, node))
        return statements


def _pattern_condition(pattern: ast.pattern, value: Callable[[], ast.expr], node: ast.Match) -> Any:
    """Build the condition under which a pattern of a ``match`` statement matches.

    For example the pattern ``1 | 2`` gives ``matched_1 == 1 or matched_1 == 2``.

    Args:
        pattern: the syntax tree of the pattern.
        value: returns a new expression of the matched value.
        node: the ``match`` statement, for errors.

    Returns:
        an expression; None if the pattern always matches.

    Raises:
        AutoGraphError: for an unsupported pattern.
    """
    match pattern:
        case ast.MatchValue(value=constant):
            return ast.Compare(left=value(), ops=[ast.Eq()], comparators=[constant])
        case ast.MatchSingleton(value=None):
            none = ast.Constant(value=None, kind=None)
            return ast.Compare(left=value(), ops=[ast.Is()], comparators=[none])
        case ast.MatchOr(patterns=patterns):
            tests = [_pattern_condition(part, value, node) for part in patterns]
            return None if None in tests else _join_tests(ast.Or(), tests)
        case ast.MatchAs(pattern=None, name=None):
            return None
    origin = anno.getanno(node, anno.Basic.ORIGIN, default=None)
    site = f" ({origin.loc.filename}:{origin.loc.lineno})" if origin is not None else ""
    raise AutoGraphError(
        f"the match statement{site} has the pattern {ast.unparse(pattern)}, expected numbers, "
        "strings, None, alternatives of these or _. Write the statement with if and elif, or "
        "put it in a function under bellhop.disable_autograph."
    )


def _join_tests(operator: ast.boolop, tests: list[ast.expr]) -> ast.expr:
    """Build the expression that joins conditions by ``and`` or ``or``."""
    return ast.BoolOp(op=operator, values=tests)
