"""Diagrams as Matplotlib figures, with nodes in ranks from top to bottom."""

from collections import defaultdict
from typing import Any

from bellhop.drawing.graph import BoxKind, Graph, Group

# Size of a box in inches.
_WIDTH, _HEIGHT = 2.4, 0.9

_COLORS = {
    BoxKind.CALLBACK: "#fff3cd",
    BoxKind.CIRCUIT: "#d6e4f7",
    BoxKind.REGION: "#dff0d8",
    BoxKind.HOST: "#f5f5f5",
}


def make_figure(graph: Graph) -> tuple[Any, Any]:
    """Draw a graph; return Matplotlib's figure and axes.

    Raises:
        ImportError: if Matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
        from matplotlib.patches import Rectangle
    except ImportError:
        raise ImportError(
            "draw_graph needs Matplotlib: pip install pennylane-bellhop[plot]. "
            "Use bellhop.draw without it."
        ) from None
    places = _layout_nodes(graph)
    columns = 1 + max((abs(x) for x, _ in places.values()), default=0)
    rows = 1 + max((-y for _, y in places.values()), default=0)
    picture, axes = pyplot.subplots(figsize=(_WIDTH * (2 * columns - 1), _HEIGHT * rows))
    for group in _collect_groups(graph.top):
        inside = [places[node.index] for node in graph.nodes(group)]
        if inside:
            left, right = min(x for x, _ in inside) - 0.46, max(x for x, _ in inside) + 0.46
            low, high = min(y for _, y in inside) - 0.44, max(y for _, y in inside) + 0.44
            axes.add_patch(Rectangle((left, low), right - left, high - low, fill=False, ls="--"))
            axes.text(left + 0.02, high, group.title, fontsize=7, va="bottom")
    for (source, target), what in graph.edges.items():
        arrow = {"arrowstyle": "->", "shrinkA": 14, "shrinkB": 14, "color": "0.4"}
        axes.annotate("", places[target], places[source], arrowprops=arrow)
        middle = [(a + b) / 2 for a, b in zip(places[source], places[target], strict=True)]
        axes.text(*middle, ", ".join(dict.fromkeys(what)), fontsize=6, color="0.4", ha="center")
    for node in graph.nodes():
        box = {"boxstyle": "round", "fc": _COLORS.get(node.kind, "white"), "ec": "0.3"}
        text = "\n".join(node.text)
        axes.text(*places[node.index], text, ha="center", va="center", fontsize=8, bbox=box)
    axes.set_xlim(-columns + 0.4, columns - 0.4)
    axes.set_ylim(-rows + 0.4, 0.6)
    axes.axis("off")
    return picture, axes


def _layout_nodes(graph: Graph) -> dict[int, tuple[float, float]]:
    """Return the position of each node, below all nodes on which it depends."""
    rank: dict[int, int] = {}
    results = [node.index for node in graph.nodes() if node.kind is BoxKind.RESULT]
    # Node indices follow the order of the program. Back edges of loops do not count.
    for index in sorted({node.index for node in graph.nodes()} - set(results)):
        sources = [rank[s] for s, t in graph.edges if t == index and s in rank]
        rank[index] = 1 + max(sources, default=-1)
    rank |= dict.fromkeys(results, 1 + max(rank.values(), default=-1))
    rows: dict[int, list[int]] = defaultdict(list)
    for index, row in rank.items():
        rows[row].append(index)
    return {
        index: (column - (len(row) - 1) / 2, -float(y))
        for y, row in rows.items()
        for column, index in enumerate(row)
    }


def _collect_groups(group: Group) -> list[Group]:
    return [each for inner in group.groups for each in (inner, *_collect_groups(inner))]
