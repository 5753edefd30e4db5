"""Arguments of a nested function are not variables of the function around it.

Replaced: ``ActivityAnalyzer.visit_arg`` of malt, which takes the name of such an argument for one
that the enclosing block binds, where it looks for annotations.  A conditional or a loop with a
lambda in it then has a variable of that name, which hides one of an enclosing function.
Versions: diastatic-malt 2.15.
Upstream: ``visit_arg`` binds nothing where only annotations are tracked.
Installed: when autograph first converts a function.
Test: ``test_converted_programs.py``.
"""

from typing import Any

from malt.pyct.static_analysis.activity import ActivityAnalyzer

from bellhop._patching import original, patch


@patch("the arguments of nested functions in malt", "they hide no variable of autograph's")
def keep_arguments_inside() -> None:
    """Let the analysis bind an argument in its function alone."""
    visit_arg = original(ActivityAnalyzer, "visit_arg")

    def visit_declared_arg(analyzer: Any, node: Any) -> Any:
        if analyzer._track_annotations_only:
            return analyzer.generic_visit(node)
        return visit_arg(analyzer, node)

    ActivityAnalyzer.visit_arg = visit_declared_arg
