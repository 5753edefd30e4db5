"""``assert`` on traced values, which is checked when the program runs."""

from collections.abc import Callable
from typing import Any

from malt.core import converter
from malt.pyct import templates

from bellhop.autograph.variables import is_traced
from bellhop.observers.assertion import assert_statement


def assert_(test: Any, message: Callable[[], Any] | None = None) -> None:
    """Check a condition during tracing, or, if it is traced, when the program runs.

    Rewritten code calls it in place of an ``assert`` statement.

    Args:
        test: the condition, a traced or a Python value.
        message: returns the error's message; None for an error without message. It is called during
            tracing, for a traced condition always and for any other condition if it is false.

    Raises:
        AssertionError: if a condition that is not traced is false.
    """
    if is_traced(test):
        assert_statement(test, *([] if message is None else [str(message())]))
    elif not test:
        raise AssertionError(*([] if message is None else [message()]))


def transform(node: Any, context: Any) -> Any:
    """Rewrite the ``assert`` statements of a function to calls of `assert_`.

    This is a step of AutoGraph's conversion of a function: it changes the syntax tree `node`, and
    returns it.
    """
    return _Assertions(context).visit(node)


class _Assertions(converter.Base):  # type: ignore[misc]
    """Syntax tree visitor that rewrites ``assert`` statements to calls of `assert_`."""

    def visit_Assert(self, node: Any) -> Any:
        """Rewrite ``assert test, message`` to ``ag__.assert_(test, lambda: message)``.

        Without a message, it becomes ``ag__.assert_(test)``.
        """
        node = self.generic_visit(node)
        if node.msg is None:
            return templates.replace("ag__.assert_(test)", test=node.test)
        call = "ag__.assert_(test, lambda: message)"
        return templates.replace(call, test=node.test, message=node.msg)
