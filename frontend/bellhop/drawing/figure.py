"""A graph as a figure of Matplotlib's: ranks from top to bottom, in the order of what flows."""

from collections import defaultdict
from typing import Any

from bellhop.drawing.graph import BoxKind, Graph, Group

# Of a box, in inches.
_WIDTH, _HEIGHT = 2.4, 0.9

_COLORS = {
    BoxKind.CALLBACK: "#fff3cd",
    BoxKind.CIRCUIT: "#d6e4f7",
    BoxKind.REGION: "#dff0d8",
    BoxKind.HOST: "#f5f5f5",
}


def make_figure(graph: Graph) -> tuple[Any, Any]:
    """Return a figure with a picture of a graph, and its axes.

    Raises:
        ImportError: without Matplotlib.
    """
    try:
        from matplotlib import pyplot
        from matplotlib.patches import Rectangle
    except ImportError:
        raise ImportError(
            "draw_graph makes a figure of Matplotlib's: pip install pennylane-bellhop[plot]. "
            "bellhop.draw needs nothing."
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
    """Return where each node stands: below all that it depends on."""
    rank: dict[int, int] = {}
    results = [node.index for node in graph.nodes() if node.kind is BoxKind.RESULT]
    # Nodes are numbered in the order of the program.  What flows back in a loop does not count.
    for number in sorted({node.index for node in graph.nodes()} - set(results)):
        sources = [rank[s] for s, t in graph.edges if t == number and s in rank]
        rank[number] = 1 + max(sources, default=-1)
    rank |= dict.fromkeys(results, 1 + max(rank.values(), default=-1))
    rows: dict[int, list[int]] = defaultdict(list)
    for number, row in rank.items():
        rows[row].append(number)
    return {
        number: (column - (len(row) - 1) / 2, -float(y))
        for y, row in rows.items()
        for column, number in enumerate(row)
    }


def _collect_groups(group: Group) -> list[Group]:
    return [each for inner in group.groups for each in (inner, *_collect_groups(inner))]
