"""Conversion of a program's jaxpr to a diagram."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from bellhop._jax.jaxprs import scan_counts
from bellhop.base.types import Aval
from bellhop.compiler.callback_target import CallbackTarget
from bellhop.drawing.graph import BoxKind, Graph, Group, Node
from bellhop.jaxprs.equations import inner_jaxprs, iterate_equations
from bellhop.profiling.format_bytes import format_bytes
from bellhop_mlir.region_name import RegionName

# Indices of the nodes from which a value comes.
Sources = frozenset[int]
_NOWHERE: Sources = frozenset()

# Primitives that only change a value's form, so they get no box.
_RESHAPING = {
    "broadcast_in_dim",
    "convert_element_type",
    "copy",
    "copy_p",
    "expand_dims",
    "reshape",
    "slice",
    "squeeze",
    "stop_gradient",
}


def format_type(aval: Aval) -> str:
    """Format an abstract value as in jaxprs, such as ``f64[3]``."""
    return aval.str_short(short_dtypes=True)


def build_program_graph(
    closed: ClosedJaxpr,
    arguments: Sequence[tuple[str, int]],
    results: Sequence[tuple[str, str | None]],
) -> Graph:
    """Build the diagram of a traced program from its jaxpr.

    Args:
        closed: the jaxpr of the traced program.
        arguments: name and number of leaves of each argument.
        results: name of each output leaf, and its requested device or None; equal entries share one
            box.
    """
    drawing = _GraphBuilder()
    graph, jaxpr = drawing.graph, closed.jaxpr
    inputs: list[Sources] = []
    for name, leaves in arguments:
        argument = graph.add(graph.top, BoxKind.ARGUMENT, name)
        inputs += [frozenset([argument.index])] * leaves
    outputs = drawing.walk(jaxpr, inputs, graph.top)
    boxes: dict[tuple[str, str | None], int] = {}
    for result, var, sources in zip(results, jaxpr.outvars, outputs, strict=True):
        if result not in boxes:
            name, device = result
            lines = [name] if device is None else [name, device]
            boxes[result] = graph.add(graph.top, BoxKind.RESULT, *lines, device=device).index
        drawing.flow(sources, boxes[result], var)
    return graph


class _GraphBuilder:
    """Builder of one diagram, which walks over the jaxpr of the program.

    Each callback, circuit and region (a part of the program on another device) is a node. All other
    equations are host operations. The host operations of a group that depend on equal sets of other
    nodes, directly or indirectly, are merged into one node. So a node never depends on itself
    through another node.

    Attributes:
        graph: the diagram, to which nodes and edges are added.
    """

    def __init__(self) -> None:
        self.graph = Graph()
        # Non-host nodes on which each node depends; non-host nodes include themselves.
        self._needs: dict[int, Sources] = {}

    def walk(self, jaxpr: Jaxpr, inputs: Sequence[Sources], group: Group) -> list[Sources]:
        """Add nodes and frames to the diagram for the equations of a jaxpr.

        Args:
            jaxpr: the jaxpr of the program, or of a part of it.
            inputs: for each input, indices of the nodes from which its value comes.
            group: the group (frame of the diagram) for the new nodes.

        Returns:
            for each result, indices of the nodes from which its value comes; empty for constants.
        """
        env: dict[Any, Sources] = dict(zip(jaxpr.invars, inputs, strict=True))
        hosts: dict[Sources, Node] = {}

        def read(atom: Any) -> Sources:
            """Return the nodes from which a variable's value comes; empty for a constant."""
            return _NOWHERE if isinstance(atom, Literal) else env.get(atom, _NOWHERE)

        for eqn in jaxpr.eqns:
            sources = [read(atom) for atom in eqn.invars]
            outputs = self._equation(eqn, sources, group, hosts)
            env.update(zip(eqn.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def flow(self, sources: Sources, target: int, atom: Any) -> None:
        """Add an edge to a node from each node that computes one of its inputs.

        Edges are labelled with the value's type, and its bytes if it is copied to another device.

        Args:
            sources: indices of the nodes from which the input's value comes.
            target: index of the node that uses it.
            atom: the value's variable in the jaxpr.
        """
        devices = self.graph.devices
        for source in sources:
            label, start, end = format_type(atom.aval), devices.get(source), devices.get(target)
            if start is not None and end is not None and start != end:
                size = format_bytes(count_bytes(atom.aval)) or "nothing"
                label += f", {size} from {start} to {end}"
            self.graph.connect(source, target, label)

    def _equation(
        self, eqn: JaxprEqn, sources: list[Sources], group: Group, hosts: dict[Sources, Node]
    ) -> list[Sources]:
        """Add an equation of the jaxpr to the diagram, with its nested jaxprs.

        A callback, circuit or region gets a node. A loop, conditional or ``jit`` that contains such
        an equation is added with its parts. All other equations are host operations, which are
        merged into host nodes; a host operation that only changes the form of a value, such as
        ``reshape``, or computes constants is left out.

        Args:
            eqn: the equation.
            sources: for each operand, indices of the nodes from which its value comes.
            group: the group for new nodes.
            hosts: the group's host nodes, by the other nodes on which they depend; may get a new
                node.

        Returns:
            for each result, indices of the nodes from which its value comes.
        """
        box = _describe_box(eqn)
        if box is not None:
            kind, lines = box
            device = lines[1] if kind is BoxKind.REGION else None
            node = self.graph.add(group, kind, *lines, device=device)
            node.location = _find_definition(eqn)
            self._needs[node.index] = self._find_needed(sources) | {node.index}
            for source, atom in zip(sources, eqn.invars, strict=True):
                self.flow(source, node.index, atom)
            return [frozenset([node.index])] * len(eqn.outvars)
        if any(_has_boxes(inner) for inner in inner_jaxprs(eqn)):
            structure: Callable[..., list[Sources]] = _STRUCTURES.get(
                eqn.primitive.name, _GraphBuilder._inline
            )
            return structure(self, eqn, sources, group)
        used = _NOWHERE.union(*sources)
        if not used or eqn.primitive.name in _RESHAPING:
            return [used] * len(eqn.outvars)
        return self._add_host_operation(eqn, sources, group, hosts)

    def _add_host_operation(
        self, eqn: JaxprEqn, sources: list[Sources], group: Group, hosts: dict[Sources, Node]
    ) -> list[Sources]:
        """Merge an equation into the host node with equal dependencies, or into a new host node.

        Args:
            eqn: the equation, neither a callback, a circuit nor a region.
            sources: for each operand, indices of the nodes from which its value comes.
            group: the group for a new node.
            hosts: the group's host nodes, by the other nodes on which they depend; may get a new
                node.

        Returns:
            for each result, the index of the host node, in a set.
        """
        needs = self._find_needed(sources)
        if needs not in hosts:
            hosts[needs] = self.graph.add(group, BoxKind.HOST)
            self._needs[hosts[needs].index] = needs
        node = hosts[needs]
        node.lines.append(_format_operation(eqn))
        itself = frozenset([node.index])
        for source, atom in zip(sources, eqn.invars, strict=True):
            self.flow(source - itself, node.index, atom)
        return [itself] * len(eqn.outvars)

    def _find_needed(self, sources: Sequence[Sources]) -> Sources:
        """Find the nodes other than host nodes on which values depend, also indirectly.

        Args:
            sources: for each value, indices of the nodes from which it comes.

        Returns:
            indices of callbacks, circuits, regions, arguments and carried values.
        """
        numbers = _NOWHERE.union(*sources)
        return _NOWHERE.union(*(self._needs.get(n, frozenset([n])) for n in numbers))

    def _inline(self, eqn: JaxprEqn, sources: list[Sources], group: Group) -> list[Sources]:
        """Add the equations of the nested jaxpr of a ``jit`` or similar equation, without a frame.

        Arguments and results are as for `_equation`. The inputs of the jaxpr are the equation's
        last operands.
        """
        [inner] = list(inner_jaxprs(eqn))[:1]
        return self.walk(inner, sources[len(sources) - len(inner.invars) :], group)

    def _scan(self, eqn: JaxprEqn, sources: list[Sources], group: Group) -> list[Sources]:
        """Add a ``scan`` to the diagram as a frame, with a node for its carried values.

        Args:
            eqn: the ``scan`` equation.
            sources: for each operand, indices of the nodes from which its value comes.
            group: the group around the loop.

        Returns:
            for each result, indices of the nodes from which its value comes.
        """
        params = eqn.params
        consts, carried = scan_counts(params)
        loop = self.graph.add_group(group, f"{params['length']} times")
        state = self._add_carried_node(
            loop, sources[consts : consts + carried], eqn.invars[consts:]
        )
        inner = params["jaxpr"].jaxpr
        inputs = sources[:consts] + [state] * carried + sources[consts + carried :]
        outputs = self.walk(inner, inputs, loop)
        self._connect_carried(outputs[:carried], state, inner.outvars)
        return [state] * carried + outputs[carried:]

    def _while(self, eqn: JaxprEqn, sources: list[Sources], group: Group) -> list[Sources]:
        """Add a ``while`` to the diagram as a frame, with a node for its carried values.

        Args:
            eqn: the ``while`` equation.
            sources: for each operand, indices of the nodes from which its value comes.
            group: the group around the loop.

        Returns:
            for each result, the index of the node of the carried values, in a set.
        """
        params = eqn.params
        in_cond, in_body = params["cond_nconsts"], params["body_nconsts"]
        consts = in_cond + in_body
        loop = self.graph.add_group(group, "while")
        state = self._add_carried_node(loop, sources[consts:], eqn.invars[consts:])
        carried = [state] * (len(sources) - consts)
        self.walk(params["cond_jaxpr"].jaxpr, sources[:in_cond] + carried, loop)
        body = params["body_jaxpr"].jaxpr
        outputs = self.walk(body, sources[in_cond:consts] + carried, loop)
        self._connect_carried(outputs, state, body.outvars)
        return carried

    def _cond(self, eqn: JaxprEqn, sources: list[Sources], group: Group) -> list[Sources]:
        """Add a ``cond`` to the diagram as a frame, with a frame for each branch in it.

        Args:
            eqn: the ``cond`` equation.
            sources: for each operand, indices of the nodes from which its value comes.
            group: the group around the conditional.

        Returns:
            for each result, indices of the nodes that compute it in all branches, and of the nodes
            that compute the index of the branch, the first operand.
        """
        branches = eqn.params["branches"]
        outer = self.graph.add_group(group, "if" if len(branches) == 2 else "switch")
        titles = ("otherwise", "then") if len(branches) == 2 else range(len(branches))
        outputs = [sources[0]] * len(eqn.outvars)
        for title, branch in zip(titles, branches, strict=True):
            inner = self.graph.add_group(outer, str(title))
            branch_outputs = self.walk(branch.jaxpr, sources[1:], inner)
            outputs = [left | right for left, right in zip(outputs, branch_outputs, strict=True)]
        return outputs

    def _add_carried_node(
        self, loop: Group, sources: list[Sources], atoms: Sequence[Any]
    ) -> Sources:
        """Add the node of a loop's carried values, and edges from their initial values.

        Args:
            loop: the loop's group.
            sources: for each carried value, indices of the nodes from which its initial value
                comes.
            atoms: variables of the initial values in the jaxpr; further variables are ignored.

        Returns:
            the index of the new node, in a set.
        """
        node = self.graph.add(loop, BoxKind.CARRIED, "carried")
        for source, atom in zip(sources, atoms, strict=False):
            self.flow(source, node.index, atom)
        return frozenset([node.index])

    def _connect_carried(
        self, outputs: Sequence[Sources], state: Sources, atoms: Sequence[Any]
    ) -> None:
        """Add the edges from an iteration's results back to the loop's carried values.

        Args:
            outputs: for each carried value, indices of the nodes from which its new value comes.
            state: index of the node of the carried values, in a set.
            atoms: variables of the new values in the jaxpr of the body.
        """
        [carried] = state
        for source, atom in zip(outputs, atoms, strict=False):
            self.flow(source - state, carried, atom)


_STRUCTURES = {
    "scan": _GraphBuilder._scan,
    "while": _GraphBuilder._while,
    "cond": _GraphBuilder._cond,
}


def _describe_box(eqn: JaxprEqn) -> tuple[BoxKind, list[str]] | None:
    """Return kind and text lines of the box for an equation of the jaxpr.

    Callbacks, circuits, regions and their derivatives have boxes; the result is None for all other
    equations, which are host operations or contain further jaxprs.
    """
    params, name = eqn.params, eqn.primitive.name
    linear = params.get("linear")
    if name == "quantum_circuit" or (linear and linear.circuit_params):
        return BoxKind.CIRCUIT, _format_circuit(
            linear.circuit_params if linear else params, along=bool(linear)
        )
    if linear and linear.callback:
        return BoxKind.CALLBACK, list(linear.callback)
    if name == "quantum_marked" and params["tag"].box:
        return BoxKind.CIRCUIT, list(params["tag"].box)
    if name.startswith("bellhop_") and "target" in params:
        target = params["target"]
        return BoxKind.CALLBACK, list(dict.fromkeys((target.name, target.public_name)))
    jit_name = str(params.get("name", ""))
    region = RegionName.parse(jit_name)
    if region is not None:
        return BoxKind.REGION, [region.function, region.device, _format_transfer(eqn)]
    return None


def _find_definition(eqn: JaxprEqn) -> str:
    """Return ``file:line`` of a callback's function, without folders; else ``""``."""
    target = eqn.params.get("target")
    location = os.path.basename(target.definition) if isinstance(target, CallbackTarget) else ""
    return "" if location.startswith("<") else location


def _format_transfer(eqn: JaxprEqn) -> str:
    """Format the bytes that a region receives and returns, as ``"... in, ... out"``.

    ``eqn`` is the region's ``jit`` equation. An operand that occurs twice counts once, and
    constants do not count. A size of 0 is ``nothing``.
    """
    taken = [atom.aval for atom in dict.fromkeys(a for a in eqn.invars if _is_value(a))]
    given = [var.aval for var in eqn.outvars]
    sizes = (sum(map(count_bytes, each)) for each in (taken, given))
    return "{} in, {} out".format(*(format_bytes(count) or "nothing" for count in sizes))


def count_bytes(aval: Aval) -> int:
    """Return the size in bytes of an array with this abstract value."""
    return int(aval.size * aval.dtype.itemsize)


def _is_value(atom: Any) -> bool:
    """Return whether an operand of an equation is a variable, not a literal."""
    return not isinstance(atom, Literal)


def _format_circuit(params: dict[str, Any], *, along: bool) -> list[str]:
    """Return the text lines of a circuit's box: name, device, and how it is executed.

    Args:
        params: parameters of the circuit's equation.
        along: whether the circuit computes only a derivative along a tangent.

    Returns:
        the QNode's name; the device with its number of qubits; the executor with the kind of
        derivatives; and, for a batched circuit, the size of the batch.
    """
    # With PennyLane, which draws nothing of a program without circuits.
    from bellhop.circuits.backends.compiled.differentiable.compiled_state import CircuitEquation
    from bellhop.circuits.ir.device_spec import DeviceSpec

    body, batch = params["body"], params["batch"]
    device, order = body.device, body.derivative_order
    runner = str(body.plan)
    if along:
        runner = f"derivative along a tangent, {runner}"
    elif any(
        CircuitEquation(eqn).is_derivative_product for eqn in iterate_equations(body.closed.jaxpr)
    ):
        runner = f"derivative along a cotangent, {runner}"
    elif order > 0:
        derivatives = "derivatives" if order == 1 else f"derivatives of order {order}"
        runner = f"with {derivatives}, {runner}"
    rows = [] if batch is None else [f"{batch.size} times"]
    return [body.name, DeviceSpec.describe_size(device.name, device.qubits), runner, *rows]


def _format_operation(eqn: JaxprEqn) -> str:
    """Return the name of a host operation in its box."""
    return str(eqn.params.get("name") or eqn.primitive.name).strip("_")


def _has_boxes(jaxpr: Jaxpr) -> bool:
    """Return whether a callback, circuit or region is in a jaxpr or in its nested jaxprs."""
    return any(_describe_box(eqn) is not None for eqn in iterate_equations(jaxpr))
