"""Diagrams as Mermaid text."""

from bellhop.drawing.graph import BoxKind, Graph, Group, Node, shorten

# Delimiters of a box's text, which define its shape.
_SHAPES = {
    BoxKind.ARGUMENT: ("([", "])"),
    BoxKind.RESULT: ("([", "])"),
    BoxKind.HOST: ("[", "]"),
    BoxKind.CALLBACK: (">", "]"),
    BoxKind.CIRCUIT: ("[[", "]]"),
    BoxKind.REGION: ("{{", "}}"),
    BoxKind.CARRIED: ("((", "))"),
}
_STYLES = {
    BoxKind.CALLBACK: "fill:#fff3cd,stroke:#b58900,color:#000",
    BoxKind.CIRCUIT: "fill:#e0e7ff,stroke:#4338ca,color:#000",
    BoxKind.REGION: "fill:#dcfce7,stroke:#15803d,color:#000",
}


def to_mermaid(graph: Graph) -> str:
    """Convert a diagram to a Mermaid flowchart; ``n3`` is the node with index 3."""
    lines = ["flowchart TD", *_format_group(graph.top, "  ")]
    for (source, target), types in graph.edges.items():
        lines.append(f'  n{source} -->|"{_escape(shorten(types))}"| n{target}')
    drawn = {node.kind for node in graph.nodes()}
    lines += [f"  classDef {kind} {style}" for kind, style in _STYLES.items() if kind in drawn]
    return "\n".join(lines) + "\n"


def _format_group(group: Group, indent: str) -> list[str]:
    """Return the Mermaid lines of a group's nodes and nested groups, indented.

    Nested groups without nodes are left out. Each line begins with the spaces ``indent``.
    """
    lines = [indent + _format_node(node) for node in group.nodes]
    for inner in filter(None, group.groups):
        lines.append(f'{indent}subgraph g{inner.index}["{_escape(inner.title)}"]')
        lines += _format_group(inner, indent + "  ")
        lines.append(f"{indent}end")
    return lines


def _format_node(node: Node) -> str:
    """Return the Mermaid statement of a node, such as ``n3["host<br>sin"]``."""
    left, right = _SHAPES[node.kind]
    text = "<br>".join(_escape(line) for line in node.text)
    style = f":::{node.kind}" if node.kind in _STYLES else ""
    return f'n{node.index}{left}"{text}"{right}{style}'


def _escape(text: str) -> str:
    """Replace the characters ``&``, ``"`` and ``<`` by Mermaid's entity codes."""
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;")
