"""Data model of a diagram: nodes, groups of nodes, and edges."""

import enum
from dataclasses import dataclass, field


class BoxKind(enum.StrEnum):
    """Kind of a node, which determines its style."""

    ARGUMENT = "argument"
    RESULT = "result"
    HOST = "host"
    CALLBACK = "callback"
    CIRCUIT = "circuit"
    REGION = "region"
    CARRIED = "carried"


@dataclass
class Node:
    """One box.

    Attributes:
        index: its index in the graph.
        kind: its kind.
        lines: its text; of a host node, its operations.
    """

    index: int
    kind: BoxKind
    lines: list[str]

    @property
    def text(self) -> list[str]:
        """The lines, shortened if there are many operations."""
        return ["host", shorten(self.lines)] if self.kind is BoxKind.HOST else self.lines


@dataclass
class Group:
    """A loop, a conditional or a branch: nodes and nested groups with a title.

    Attributes:
        index: its index in the graph.
        title: its title.
        nodes: its nodes.
        groups: nested groups.
    """

    index: int
    title: str
    nodes: list[Node] = field(default_factory=list)
    groups: list["Group"] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Return whether the group contains any node."""
        return bool(self.nodes) or any(self.groups)


@dataclass
class Graph:
    """Nodes in groups, and edges between node indices.

    Attributes:
        top: group of nodes outside of loops and conditionals.
        edges: types of the values, by source and target.
        devices: device of nodes with device-resident values.
    """

    top: Group = field(default_factory=lambda: Group(0, ""))
    edges: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    devices: dict[int, str] = field(default_factory=dict)
    _nodes: int = 0
    _groups: int = 0

    def add(self, group: Group, kind: BoxKind, *lines: str, device: str | None = None) -> Node:
        """Add a new node to a group.

        Args:
            group: the group.
            kind: kind of the node.
            *lines: its text.
            device: device of its value, or None.
        """
        node = Node(self._nodes, kind, list(lines))
        if device is not None:
            self.devices[node.index] = device
        self._nodes += 1
        group.nodes.append(node)
        return node

    def add_group(self, outer: Group, title: str) -> Group:
        """Add a new group to another group."""
        self._groups += 1
        group = Group(self._groups, title)
        outer.groups.append(group)
        return group

    def connect(self, source: int, target: int, label: str) -> None:
        """Add a value to the edge between two nodes."""
        self.edges.setdefault((source, target), []).append(label)

    def nodes(self, group: Group | None = None) -> list[Node]:
        """Return the nodes of a group and its nested groups."""
        group = group or self.top
        return group.nodes + [node for inner in group.groups for node in self.nodes(inner)]


def shorten(items: list[str]) -> str:
    """Join the first three distinct items, and the number of further items."""
    different = list(dict.fromkeys(items))
    more = f", {len(different) - 3} more" if len(different) > 3 else ""
    return ", ".join(different[:3]) + more
