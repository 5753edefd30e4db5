"""Diagrams as text for terminals."""

import sys
import textwrap
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from bellhop.drawing.graph import BoxKind, Graph, Group, Node, shorten

# Each line has at most 100 columns, of which the ASCII arrow needs one more than the other arrow.
_WIDTH = 99
_BOX_WIDTH = 60
_KIND_WIDTH = max(map(len, BoxKind)) + 2
_FRAMES = "┌├└│─←"
_ASCII = str.maketrans(dict(zip(_FRAMES, ("+", "+", "+", "|", "-", "<-"), strict=True)))
# Jaxprs have the branch of a false condition first.
_BRANCH_ORDER = {"then": -1}

# For each node, labels of the values that flow to it, by index of their source.
_Inputs = defaultdict[int, dict[int, list[str]]]


def to_text(graph: Graph) -> str:
    """Convert a diagram to text, with the boxes from top to bottom in program order.

    Each box is a line with its kind, its name and details; details that do not fit are on further
    lines. After an arrow are the types of its inputs, and the names of the boxes that compute them
    unless the only source is the box in the line above. Frames are drawn with ASCII characters if
    standard output cannot encode other characters.

    Args:
        graph: the diagram.

    Returns:
        the text without a newline at its end; lines are wrapped at 100 columns.
    """
    inputs: _Inputs = defaultdict(dict)
    for (source, target), types in graph.edges.items():
        inputs[target][source] = types
    rows = _list_rows(inputs, graph.top, "")
    names = _name_nodes([row.node for row in rows if row.node is not None and not row.is_end])
    order = {index: place for place, index in enumerate(names)}
    for row in rows:
        row.inputs = dict(sorted(row.inputs.items(), key=lambda entry: order[entry[0]]))
    boxes = [row.format_box(names) for row in rows]
    column = max((len(lines[0]) for lines in boxes), default=0)
    lines: list[str] = []
    above: int | None = None
    for row, box in zip(rows, boxes, strict=True):
        lines += row.add_inputs(box, _format_inputs(row.inputs, names, above), column)
        if row.is_end:
            above = None
        elif row.node is not None:
            above = row.node.index
    text = "\n".join(lines)
    return text if _can_print(_FRAMES) else text.translate(_ASCII)


@dataclass
class _Row:
    """A line of the text drawing: a node's box, or the first or last line of a frame.

    Attributes:
        left: characters before the text: lines of the frames around it, or a corner.
        below: characters before the text if it is continued on further lines.
        node: the node of the box; for the last line of a loop, the node of the carried values;
            None for other lines of frames.
        title: title of the frame that begins.
        is_end: whether it is the last line of a frame.
        inputs: labels of the values that flow to the node, by index of their source.
    """

    left: str
    below: str
    node: Node | None = None
    title: str = ""
    is_end: bool = False
    inputs: dict[int, list[str]] = field(default_factory=dict)

    def format_box(self, names: dict[int, str]) -> list[str]:
        """Return the text lines of the row, without the inputs of its node.

        Args:
            names: distinct name of each node, by index.
        """
        if self.node is None:
            return [(self.left + self.title).rstrip()]
        if self.is_end:
            return [f"{self.left}back to {names[self.node.index]}"]
        first, details = _describe_node(self.node, names[self.node.index])
        separator = "  "
        while details and len(self.left + first + separator + details[0]) <= _BOX_WIDTH:
            first += separator + details.pop(0)
            separator = ", "
        first, *rest = _wrap(first, _BOX_WIDTH - len(self.left))
        # Further details have no arrow behind them, so they may fill the line.
        rest += _wrap(", ".join(details), _WIDTH - _KIND_WIDTH - len(self.below))
        indent = self.below + " " * _KIND_WIDTH
        return [self.left + first, *(indent + line for line in rest)]

    def add_inputs(self, box: list[str], inputs: str, column: int) -> list[str]:
        """Append the inputs to the first line of a box, on several lines if they are long.

        Args:
            box: lines of the box.
            inputs: formatted inputs; empty for a box without inputs.
            column: column of the arrow before the inputs.

        Returns:
            the lines of the box with the inputs.
        """
        first, *rest = box
        if not inputs:
            return box
        wrapped = _wrap(inputs, _WIDTH - column - 4)
        wrapped[1:] = [f"  {line}" for line in wrapped[1:]]
        lefts = [first, *[self.below.rstrip()] * (len(wrapped) - 1)]
        lines = [f"{left:<{column}}  {line}" for left, line in zip(lefts, wrapped, strict=True)]
        return lines + rest


def _list_rows(inputs: _Inputs, group: Group, frame: str) -> list[_Row]:
    """List the rows of a group's nodes and nested groups, in program order.

    Args:
        inputs: for each node, labels of the values that flow to it, by index of their source.
        group: the group.
        frame: the characters of the frames around the group, which begin each row.
    """
    rows: list[_Row] = []
    for item in _sort_items(inputs, group):
        if isinstance(item, Node):
            repeated = _find_repeated(inputs, item, group)
            initial = {
                source: types
                for source, types in inputs[item.index].items()
                if source not in repeated
            }
            rows.append(_Row(frame, frame, item, inputs=initial))
        else:
            rows += _list_frame_rows(inputs, item, frame)
    return rows


def _list_frame_rows(inputs: _Inputs, group: Group, frame: str) -> list[_Row]:
    """List the rows of a frame: a loop, or a conditional with its branches.

    Args:
        inputs: for each node, labels of the values that flow to it, by index of their source.
        group: the group that the frame surrounds.
        frame: the characters of the frames around this frame, which begin each row.
    """
    rows = [_Row(f"{frame}┌─ ", frame, title=group.title)]
    inside = f"{frame}│  "
    if group.nodes:
        rows += _list_rows(inputs, group, inside)
    else:
        branches = filter(None, group.groups)
        for branch in sorted(branches, key=lambda each: _BRANCH_ORDER.get(each.title, 0)):
            rows.append(_Row(f"{frame}├─ ", inside, title=branch.title))
            rows += _list_rows(inputs, branch, inside)
    last = _Row(f"{frame}└─ ", f"{frame}   ", is_end=True)
    for node in group.nodes:
        repeated = _find_repeated(inputs, node, group)
        if repeated:
            last.node, last.inputs = node, repeated
    return [*rows, last]


def _find_repeated(inputs: _Inputs, node: Node, group: Group) -> dict[int, list[str]]:
    """Find the values that flow from an iteration's results to the carried values.

    Args:
        inputs: for each node, labels of the values that flow to it, by index of their source.
        node: a node of the loop.
        group: the group of the loop.

    Returns:
        labels of the values by index of their source, a node in the loop's `group`; empty unless
        `node` is the node of the carried values.
    """
    if node.kind is not BoxKind.CARRIED:
        return {}
    indices = _list_indices(group)
    return {source: types for source, types in inputs[node.index].items() if source in indices}


def _sort_items(inputs: _Inputs, group: Group) -> list[Node | Group]:
    """List a group's nodes and nested groups in program order, each after its inputs.

    If nodes depend on each other, some precede an input. Nested groups without nodes are left out.
    """
    # A host node has the index of its first operation, and an operation that is merged into it can
    # depend on a later node.
    items: list[Node | Group] = [*group.nodes, *filter(None, group.groups)]
    items.sort(key=lambda item: min(_list_indices(item)))
    owner = {index: place for place, item in enumerate(items) for index in _list_indices(item)}
    needed: dict[int, set[int]] = defaultdict(set)
    carried = {node.index for node in group.nodes if node.kind is BoxKind.CARRIED}
    for target in owner.keys() - carried:
        sources = inputs[target].keys() & owner.keys()
        needed[owner[target]] |= {owner[source] for source in sources} - {owner[target]}
    ordered: list[Node | Group] = []
    placed: set[int] = set()
    waiting = list(range(len(items)))
    while waiting:
        # Operations of branches can be merged such that nodes depend on each other.
        place = next((place for place in waiting if needed[place] <= placed), waiting[0])
        waiting.remove(place)
        placed.add(place)
        ordered.append(items[place])
    return ordered


def _list_indices(item: Node | Group) -> set[int]:
    """List the indices of a node, or of all nodes in a group."""
    if isinstance(item, Node):
        return {item.index}
    items: list[Node | Group] = [*item.nodes, *item.groups]
    return {index for inner in items for index in _list_indices(inner)}


def _name_nodes(nodes: list[Node]) -> dict[int, str]:
    """Name each node by its first line, numbered where several have the same line.

    `nodes` are all nodes, from top to bottom.

    Returns:
        for the index of each node, a name such as ``lookup``, or ``lookup#2``.
    """
    count = Counter(node.text[0] for node in nodes)
    seen: Counter[str] = Counter()
    names = {}
    for node in nodes:
        name = node.text[0]
        seen[name] += 1
        names[node.index] = f"{name}#{seen[name]}" if count[name] > 1 else name
    return names


def _describe_node(node: Node, name: str) -> tuple[str, list[str]]:
    """Return the heading of a node, such as ``callback  f``, and a list of its details."""
    details = node.text[1:]
    if node.kind is BoxKind.HOST:
        return f"{name:<{_KIND_WIDTH - 2}}", details
    if node.kind in (BoxKind.RESULT, BoxKind.CARRIED):
        return name, [f"on {device}" for device in details]
    if node.kind is BoxKind.REGION:
        device, *details = details
        name, details = f"{name} on {device}", details
    return f"{node.kind:<{_KIND_WIDTH}}{name}", details + ([node.location] if node.location else [])


def _format_inputs(inputs: dict[int, list[str]], names: dict[int, str], above: int | None) -> str:
    """Format the values that flow to a node, as in ``← x: f64[]; lookup, y: f64[3]``.

    Args:
        inputs: labels of the values, by index of their source.
        names: distinct name of each node.
        above: index of the node in the line above, which is not named if it is the only source.
    """
    if not inputs:
        return ""
    if above is not None and list(inputs) == [above]:
        return f"← {shorten(inputs[above])}"
    sources: dict[str, list[str]] = defaultdict(list)
    for source, types in inputs.items():
        sources[shorten(types)].append(names[source])
    return "← " + "; ".join(f"{', '.join(each)}: {label}" for label, each in sources.items())


def _wrap(text: str, width: int) -> list[str]:
    """Break text between words into lines of at most ``width`` columns, but at least 20."""
    return textwrap.wrap(text, max(20, width), break_on_hyphens=False)


def _can_print(characters: str) -> bool:
    """Return whether the encoding of standard output has all of these characters."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return characters.encode(encoding, "replace").decode(encoding) == characters
