"""Diagrams in Graphviz's DOT language."""

import json

from bellhop.drawing.graph import BoxKind, Graph, Group, Node, shorten

_STYLES = {
    BoxKind.ARGUMENT: 'shape=ellipse, fillcolor="#f1f5f9"',
    BoxKind.RESULT: 'shape=ellipse, fillcolor="#f1f5f9"',
    BoxKind.HOST: 'shape=box, fillcolor="#ffffff"',
    BoxKind.CALLBACK: 'shape=note, fillcolor="#fff3cd", color="#b58900"',
    BoxKind.CIRCUIT: 'shape=box, peripheries=2, fillcolor="#e0e7ff", color="#4338ca"',
    BoxKind.REGION: 'shape=hexagon, fillcolor="#dcfce7", color="#15803d"',
    BoxKind.CARRIED: 'shape=circle, fillcolor="#ffffff", fontsize=8',
}


def to_dot(graph: Graph) -> str:
    """Convert a diagram to a ``digraph`` in Graphviz's DOT language.

    ``n3`` is the node with the index 3, and ``cluster_2`` the group with the index 2.
    """
    lines = [
        "digraph program {",
        '  node [style=filled, fontname="sans-serif", fontsize=10]',
        '  edge [fontname="sans-serif", fontsize=8, color="#64748b"]',
        *_format_group(graph.top, "  "),
    ]
    for (source, target), types in graph.edges.items():
        lines.append(f"  n{source} -> n{target} [label={json.dumps(shorten(types))}]")
    return "\n".join([*lines, "}"]) + "\n"


def _format_group(group: Group, indent: str) -> list[str]:
    """Return the DOT lines of a group's nodes and nested groups, indented.

    Nested groups without nodes are left out. Each line begins with the spaces ``indent``.
    """
    lines = [indent + _format_node(node) for node in group.nodes]
    for inner in filter(None, group.groups):
        title = f'label={json.dumps(inner.title)}; style="rounded"; color="#94a3b8"'
        # Graphviz draws a box around a subgraph only if its name starts with "cluster".
        lines.append(f"{indent}subgraph cluster_{inner.index} {{")
        lines.append(f'{indent}  {title}; fontname="sans-serif"; fontsize=10')
        lines += _format_group(inner, indent + "  ")
        lines.append(f"{indent}}}")
    return lines


def _format_node(node: Node) -> str:
    """Return the DOT statement of a node, with its text and style."""
    return f"n{node.index} [label={json.dumps(chr(10).join(node.text))}, {_STYLES[node.kind]}]"
