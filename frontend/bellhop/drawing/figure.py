"""Diagrams as Matplotlib figures, with nodes from top to bottom."""

from typing import Any

from bellhop.drawing.graph import BoxKind, Graph, shorten
from bellhop.drawing.layout import collect_groups, make_layout

_COLORS = {
    BoxKind.CALLBACK: "#fff3cd",
    BoxKind.CIRCUIT: "#d6e4f7",
    BoxKind.REGION: "#dff0d8",
    BoxKind.HOST: "#f5f5f5",
}
# Around the diagram, in points.
_MARGIN = 10


def make_figure(graph: Graph) -> tuple[Any, Any]:
    """Draw a program's diagram with Matplotlib's ``pyplot``.

    Returns:
        the new figure and its axes, whose unit is a point (1/72 inch).

    Raises:
        ImportError: if Matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
        from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch, Rectangle
        from matplotlib.path import Path
    except ImportError:
        raise ImportError(
            "draw_graph needs Matplotlib: pip install matplotlib. Or use bellhop.draw, which does "
            "not need it."
        ) from None
    layout = make_layout(graph)
    width, height = (extent + 2 * _MARGIN for extent in layout.size)
    # One unit of the axes is a point, so that texts fit the boxes that were laid out for them.
    picture = pyplot.figure(figsize=(max(width, 180) / 72, height / 72 + 0.4))
    axes = picture.add_axes((0, 0, 1, height / (height + 0.4 * 72)))
    for group in collect_groups(graph.top):
        if group.index in layout.groups:
            x, y, across, up = layout.groups[group.index]
            axes.add_patch(Rectangle((x, y), across, up, fill=False, ls="--", ec="0.6"))
            axes.text(x + 4, y + up - 3, group.title, fontsize=7, va="top")
    for (source, target), types in graph.edges.items():
        points = layout.edges[source, target]
        curve = Path(points, [Path.MOVETO] + [Path.CURVE4] * (len(points) - 1))
        axes.add_patch(
            FancyArrowPatch(path=curve, arrowstyle="-|>", mutation_scale=7, color="0.45", lw=0.8)
        )
        if (source, target) in layout.labels:
            ground = {"fc": "white", "ec": "none", "pad": 0.5}
            place = layout.labels[source, target]
            axes.text(*place, shorten(types), fontsize=6, ha="center", va="center", bbox=ground)
    for node in graph.nodes():
        x, y, across, up = layout.boxes[node.index]
        corner = x - across / 2 + 2, y - up / 2 + 2
        color = _COLORS.get(node.kind, "white")
        style = "round,pad=2,rounding_size=4"
        axes.add_patch(FancyBboxPatch(corner, across - 4, up - 4, style, fc=color, ec="0.3"))
        axes.text(x, y, "\n".join(node.text), ha="center", va="center", fontsize=7.5)
    kinds = {node.kind for node in graph.nodes()}
    legend = [
        Patch(fc=color, ec="0.3", label=kind.value)
        for kind, color in _COLORS.items()
        if kind in kinds
    ]
    if legend:
        picture.legend(
            handles=legend, loc="upper center", ncols=len(legend), fontsize=7, frameon=False
        )
    axes.set_xlim(-_MARGIN, layout.size[0] + _MARGIN)
    axes.set_ylim(-_MARGIN, layout.size[1] + _MARGIN)
    axes.set_aspect("equal")
    axes.axis("off")
    return picture, axes
