"""Arguments of a nested function are not variables of the function around it.

malt's analysis takes the name of such an argument for one that the enclosing block binds, where
it looks for annotations.  A conditional or a loop with a lambda in it then has a variable of that
name, which hides one of an enclosing function.
"""

from typing import Any

from malt.pyct.static_analysis.activity import ActivityAnalyzer

_visit_arg = ActivityAnalyzer.visit_arg


def _visit_declared_arg(analyzer: Any, node: Any) -> Any:
    if analyzer._track_annotations_only:
        return analyzer.generic_visit(node)
    return _visit_arg(analyzer, node)


def keep_to_their_functions() -> None:
    """Let the analysis bind an argument in its function alone."""
    ActivityAnalyzer.visit_arg = _visit_declared_arg
