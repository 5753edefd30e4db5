"""Data model of a diagram: nodes, groups of nodes, and edges."""

import enum
from dataclasses import dataclass, field


class BoxKind(enum.StrEnum):
    """Kind of a node in a program's diagram, which determines its shape and colour.

    Attributes:
        ARGUMENT, RESULT: an argument or a result of the program.
        HOST: operations that the program itself executes.
        CALLBACK: a Python function that the program calls.
        CIRCUIT: a QNode.
        REGION: a part of the program that runs on another device.
        CARRIED: the loop-carried values of a loop.
    """

    ARGUMENT = "argument"
    RESULT = "result"
    HOST = "host"
    CALLBACK = "callback"
    CIRCUIT = "circuit"
    REGION = "region"
    CARRIED = "carried"


@dataclass
class Node:
    """One box in a program's diagram.

    Attributes:
        index: its index in the diagram, counted from 0.
        kind: its kind.
        lines: its lines of text; for kind ``HOST``, the names of its operations.
        location: ``file:line`` of a callback's function, without folders; empty for other boxes.
    """

    index: int
    kind: BoxKind
    lines: list[str]
    location: str = ""

    @property
    def text(self) -> list[str]:
        """The lines to draw: `lines`; for kind ``HOST``, ``host`` and the first operations."""
        return ["host", shorten(self.lines)] if self.kind is BoxKind.HOST else self.lines


@dataclass
class Group:
    """A loop, a conditional or a branch in a program's diagram, drawn as a frame.

    Attributes:
        index: its index in the diagram; 0 for the group around everything, which has no frame.
        title: its title, such as ``"while"``.
        nodes: nodes directly in it.
        groups: groups directly in it.
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
    """A program's diagram: nodes in nested groups, and edges between the nodes.

    Attributes:
        top: group with all other groups, and the nodes outside of loops and conditionals.
        edges: by indices of source and target node, a label such as ``f64[3]`` for each value that
            flows.
        devices: name of the device on which a node's value stays, by index of the node; only
            regions and results with a requested device have an entry.
    """

    top: Group = field(default_factory=lambda: Group(0, ""))
    edges: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    devices: dict[int, str] = field(default_factory=dict)
    _nodes: int = 0
    _groups: int = 0

    def add(self, group: Group, kind: BoxKind, *lines: str, device: str | None = None) -> Node:
        """Create a node of the diagram in a group, and return the node.

        Args:
            group: the group.
            kind: kind of the node.
            *lines: lines of text in its box.
            device: name of the device on which its value stays, or None.
        """
        node = Node(self._nodes, kind, list(lines))
        if device is not None:
            self.devices[node.index] = device
        self._nodes += 1
        group.nodes.append(node)
        return node

    def add_group(self, outer: Group, title: str) -> Group:
        """Create an empty group of the diagram inside of another group, and return it."""
        self._groups += 1
        group = Group(self._groups, title)
        outer.groups.append(group)
        return group

    def connect(self, source: int, target: int, label: str) -> None:
        """Add a label, the type of a value, to the edge between two nodes given by index."""
        self.edges.setdefault((source, target), []).append(label)

    def nodes(self, group: Group | None = None) -> list[Node]:
        """List the nodes of a group and its nested groups; None for the whole diagram."""
        group = group or self.top
        return group.nodes + [node for inner in group.groups for node in self.nodes(inner)]


def shorten(items: list[str]) -> str:
    """Join the first three distinct items, and the number of further distinct items.

    For example ``["a", "b", "a", "c", "d"]`` gives ``"a, b, c, 1 more"``.
    """
    different = list(dict.fromkeys(items))
    more = f", {len(different) - 3} more" if len(different) > 3 else ""
    return ", ".join(different[:3]) + more
