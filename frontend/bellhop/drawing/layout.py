"""Positions of a diagram's boxes, edges and labels, computed by Graphviz where it is installed."""

import json
import shutil
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field

from bellhop.drawing.dot import to_dot
from bellhop.drawing.graph import BoxKind, Graph, Group

Point = tuple[float, float]
Edge = tuple[int, int]

# Width and height of a box, and the distances between boxes, where Graphviz is missing, in points.
_BOX = (130.0, 34.0)
_GAPS = (40.0, 40.0)


@dataclass
class Layout:
    """Positions of a diagram's parts, in points, with the origin at the lower left.

    Attributes:
        size: width and height of the diagram.
        boxes: center x, center y, width and height of each node, by index of the node.
        edges: control points of each edge, by indices of source and target node: one point, then
            three for each cubic Bézier curve.
        labels: center of each edge's label, by the same indices.
        groups: left, bottom, width and height of each group's frame, by index of the group.
    """

    size: Point
    boxes: dict[int, tuple[float, float, float, float]] = field(default_factory=dict)
    edges: dict[Edge, list[Point]] = field(default_factory=dict)
    labels: dict[Edge, Point] = field(default_factory=dict)
    groups: dict[int, tuple[float, float, float, float]] = field(default_factory=dict)


def make_layout(graph: Graph) -> Layout:
    """Place the nodes of a diagram from top to bottom.

    Graphviz's command ``dot`` computes the positions if it is installed; otherwise each node is in
    a row below the nodes on which it depends.
    """
    if shutil.which("dot") is None:
        return _rank_nodes(graph)
    done = subprocess.run(
        ["dot", "-Tjson0"], input=to_dot(graph), capture_output=True, text=True, check=True
    )
    return _read_layout(json.loads(done.stdout))


def _read_layout(found: dict) -> Layout:
    """Convert the parsed JSON that Graphviz's ``dot`` writes for text of `to_dot`."""
    left, low, right, high = _numbers(found["bb"])
    layout = Layout((right - left, high - low))
    for item in found.get("objects", []):
        name = item["name"]
        if name.startswith("cluster_"):
            x, y, to_x, to_y = _numbers(item["bb"])
            layout.groups[int(name.removeprefix("cluster_"))] = (x, y, to_x - x, to_y - y)
        else:
            x, y = _numbers(item["pos"])
            size = 72 * float(item["width"]), 72 * float(item["height"])
            layout.boxes[int(name.removeprefix("n"))] = (x, y, *size)
    nodes = {item["_gvid"]: item["name"] for item in found.get("objects", [])}
    for edge in found.get("edges", []):
        tail, head = (int(nodes[edge[end]].removeprefix("n")) for end in ("tail", "head"))
        key = tail, head
        words = edge["pos"].split()
        # "e,x,y" is the arrow's tip, and the remaining words are the curve's control points.
        tips = [_point(word[2:]) for word in words if word.startswith("e,")]
        layout.edges[key] = [_point(word) for word in words if word[0] not in "es"]
        layout.edges[key] += [tip for tip in tips for _ in range(3)]
        if "lp" in edge:
            layout.labels[key] = _point(edge["lp"])
    return layout


def _numbers(text: str) -> list[float]:
    """Parse numbers separated by commas."""
    return [float(word) for word in text.split(",")]


def _point(text: str) -> Point:
    """Parse the coordinates ``"x,y"`` of a point."""
    x, y = _numbers(text)
    return x, y


def _rank_nodes(graph: Graph) -> Layout:
    """Place each node of a diagram in a row below all nodes on which it depends.

    Used without Graphviz. Results are in the last row, and edges are straight. Edges from later
    nodes to earlier nodes, as in loops, do not count.
    """
    rank: dict[int, int] = {}
    results = [node.index for node in graph.nodes() if node.kind is BoxKind.RESULT]
    # Node indices follow the order of the program. Back edges of loops do not count.
    for index in sorted({node.index for node in graph.nodes()} - set(results)):
        sources = [rank[s] for s, t in graph.edges if t == index and s in rank]
        rank[index] = 1 + max(sources, default=-1)
    rank |= dict.fromkeys(results, 1 + max(rank.values(), default=-1))
    rows: dict[int, list[int]] = defaultdict(list)
    for index, number in rank.items():
        rows[number].append(index)
    pitch = _BOX[0] + _GAPS[0], _BOX[1] + _GAPS[1]
    width = pitch[0] * max(map(len, rows.values()), default=1)
    layout = Layout((width, pitch[1] * max(len(rows), 1)))
    for number, row in rows.items():
        y = layout.size[1] - pitch[1] * (number + 0.5)
        for column, index in enumerate(row):
            x = width / 2 + pitch[0] * (column - (len(row) - 1) / 2)
            layout.boxes[index] = (x, y, *_BOX)
    for source, target in graph.edges:
        from_x, from_y, _, height = layout.boxes[source]
        to_x, to_y, _, to_height = layout.boxes[target]
        begin, end = (from_x, from_y - height / 2), (to_x, to_y + to_height / 2)
        layout.edges[source, target] = [begin, begin, end, end]
        layout.labels[source, target] = (begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2
    for group in collect_groups(graph.top):
        inside = [layout.boxes[node.index] for node in graph.nodes(group)]
        if inside:
            left, right = (min(x for x, *_ in inside), max(x for x, *_ in inside))
            low, high = (min(y for _, y, *_ in inside), max(y for _, y, *_ in inside))
            corner = left - _BOX[0] / 2 - 8, low - _BOX[1] / 2 - 8
            layout.groups[group.index] = (
                *corner,
                right + _BOX[0] / 2 + 8 - corner[0],
                high + _BOX[1] / 2 + 20 - corner[1],
            )
    return layout


def collect_groups(group: Group) -> list[Group]:
    """List all groups nested in a group, outer groups before the groups in them."""
    return [each for inner in group.groups for each in (inner, *collect_groups(inner))]
