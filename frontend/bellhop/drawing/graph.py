"""What a picture of a program shows: nodes, groups of nodes, and what flows between them."""

import enum
from dataclasses import dataclass, field


class BoxKind(enum.StrEnum):
    """What a box stands for; each kind is drawn in a way of its own."""

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
        index: its place in the graph.
        kind: what it stands for.
        lines: what stands in it; for one on the host, its operations.
    """

    index: int
    kind: BoxKind
    lines: list[str]

    @property
    def text(self) -> list[str]:
        """The lines, shortened where there are many operations."""
        return ["host", shorten(self.lines)] if self.kind is BoxKind.HOST else self.lines


@dataclass
class Group:
    """A loop, a conditional or a branch: nodes and further groups under a title."""

    index: int
    title: str
    nodes: list[Node] = field(default_factory=list)
    groups: list["Group"] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Tell whether there is anything in it."""
        return bool(self.nodes) or any(self.groups)


@dataclass
class Graph:
    """Nodes in groups, and edges between nodes by their numbers.

    Attributes:
        top: what is in no loop and no conditional.
        edges: for source and target, the types of the values that flow there.
        devices: those of the nodes whose values lie on one.
    """

    top: Group = field(default_factory=lambda: Group(0, ""))
    edges: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    devices: dict[int, str] = field(default_factory=dict)
    _nodes: int = 0
    _groups: int = 0

    def add(self, group: Group, kind: BoxKind, *lines: str, device: str | None = None) -> Node:
        """Put a new node into a group."""
        node = Node(self._nodes, kind, list(lines))
        if device is not None:
            self.devices[node.index] = device
        self._nodes += 1
        group.nodes.append(node)
        return node

    def add_group(self, outer: Group, title: str) -> Group:
        """Put a new group into another."""
        self._groups += 1
        group = Group(self._groups, title)
        outer.groups.append(group)
        return group

    def connect(self, source: int, target: int, label: str) -> None:
        """Let a value flow from one node to another."""
        self.edges.setdefault((source, target), []).append(label)

    def nodes(self, group: Group | None = None) -> list[Node]:
        """Return the nodes of a group and of all groups in it."""
        group = group or self.top
        return group.nodes + [node for inner in group.groups for node in self.nodes(inner)]


def shorten(items: list[str]) -> str:
    """Return the first few different items, and how many more there are."""
    different = list(dict.fromkeys(items))
    more = f", {len(different) - 3} more" if len(different) > 3 else ""
    return ", ".join(different[:3]) + more
