"""Write formulas as MathML, which browsers draw without a script or a font from a network."""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert


def setup(app: Any) -> dict[str, Any]:
    """Register the renderer, which `html_math_renderer` names."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _visit_inline(self: Any, node: nodes.math) -> None:
    self.body.append(f'<span class="math">{convert(node.astext())}</span>')
    raise nodes.SkipNode


def _visit_block(self: Any, node: nodes.math_block) -> None:
    """Write a displayed formula as MathML."""
    # latex2mathml aligns at & only inside an environment.
    text = node.astext().strip()
    if "\\\\" in text and not re.search(r"\\begin", text):
        text = f"\\begin{{aligned}}{text}\\end{{aligned}}"
    self.body.append(f'<div class="math">{convert(text, display="block")}</div>')
    raise nodes.SkipNode
