"""Keep arguments of nested functions from becoming variables of the outer block.

Replaced: ``ActivityAnalyzer.visit_arg`` of malt, which treats the name of such an argument as bound
by the enclosing block when it analyses annotations.  A conditional or a loop that contains a lambda
then has a variable of that name, which hides a variable of an enclosing function.
Versions: diastatic-malt 2.15.
Upstream: an analysis whose ``visit_arg`` binds nothing while it tracks only annotations.
Issue: none reported.
Installed: when autograph first converts a function.
Test: ``test_converted_programs.py``.
"""

from typing import Any

from malt.pyct.static_analysis.activity import ActivityAnalyzer

from bellhop._patching import original, patch, replace


@patch("the arguments of nested functions in malt", "they must not hide outer variables")
def keep_arguments_inside() -> None:
    """Make malt's analysis bind an argument only in its own function.

    Otherwise the argument of a lambda in a loop would count as a variable of the loop. Replaces
    ``ActivityAnalyzer.visit_arg`` of malt.
    """
    visit_arg = original(ActivityAnalyzer, "visit_arg")

    def visit_declared_arg(analyzer: Any, node: Any) -> Any:
        """Visit a function's argument in malt's analysis, without binding it outside.

        Malt visits the arguments of a nested function once more to analyse their annotations only;
        this visit does not bind the name. This function replaces malt's
        ``ActivityAnalyzer.visit_arg``.
        """
        if analyzer._track_annotations_only:
            return analyzer.generic_visit(node)
        return visit_arg(analyzer, node)

    replace(ActivityAnalyzer, "visit_arg", visit_declared_arg)
