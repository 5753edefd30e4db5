"""From the jaxpr of a program to its picture."""

from collections.abc import Callable, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from bellhop._jax.jaxprs import scan_counts
from bellhop.base.types import Aval
from bellhop.drawing.graph import BoxKind, Graph, Group, Node
from bellhop.jaxprs.equations import inner_jaxprs, iterate_equations
from bellhop.profiling.format_bytes import format_bytes
from bellhop_mlir.region_name import RegionName

# Numbers of the nodes that a value comes from.
Sources = frozenset[int]
_NOWHERE: Sources = frozenset()

# These change what a value looks like and compute nothing, so no box stands for them.
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
    """Return the type of a value as jaxprs write it."""
    return aval.str_short(short_dtypes=True)


def build_program_graph(
    closed: ClosedJaxpr,
    arguments: Sequence[tuple[str, int]],
    results: Sequence[tuple[str, str | None]],
) -> Graph:
    """Return the picture of a program.

    Args:
        closed: the traced program.
        arguments: name of each argument and how many of the program's inputs it is.
        results: name of each output of the program, and the device that it is asked for on;
            equal names of one device are one box.
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
    """Goes through jaxprs; what computes on the host is gathered into few nodes.

    Two operations on the host belong to one node if they depend on the same callbacks,
    circuits and regions; so a node never depends on itself by way of another.
    """

    def __init__(self) -> None:
        self.graph = Graph()
        # What nodes depend on, but for nodes on the host; others depend on themselves too.
        self._needs: dict[int, Sources] = {}

    def walk(self, jaxpr: Jaxpr, inputs: Sequence[Sources], group: Group) -> list[Sources]:
        env: dict[Any, Sources] = dict(zip(jaxpr.invars, inputs, strict=True))
        hosts: dict[Sources, Node] = {}

        def read(atom: Any) -> Sources:
            return _NOWHERE if isinstance(atom, Literal) else env.get(atom, _NOWHERE)

        for eqn in jaxpr.eqns:
            sources = [read(atom) for atom in eqn.invars]
            outputs = self._equation(eqn, sources, group, hosts)
            env.update(zip(eqn.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def flow(self, sources: Sources, target: int, atom: Any) -> None:
        devices = self.graph.devices
        for source in sources:
            what, there, here = format_type(atom.aval), devices.get(source), devices.get(target)
            if there is not None and here is not None and there != here:
                what += (
                    f", {format_bytes(count_bytes(atom.aval)) or 'nothing'} from {there} to {here}"
                )
            self.graph.connect(source, target, what)

    def _equation(
        self, eqn: JaxprEqn, sources: list[Sources], group: Group, hosts: dict[Sources, Node]
    ) -> list[Sources]:
        box = _describe_box(eqn)
        if box is not None:
            kind, lines = box
            device = lines[1] if kind is BoxKind.REGION else None
            node = self.graph.add(group, kind, *lines, device=device)
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
        numbers = _NOWHERE.union(*sources)
        return _NOWHERE.union(*(self._needs.get(n, frozenset([n])) for n in numbers))

    def _inline(self, eqn: JaxprEqn, sources: list[Sources], group: Group) -> list[Sources]:
        [inner] = list(inner_jaxprs(eqn))[:1]
        return self.walk(inner, sources[len(sources) - len(inner.invars) :], group)

    def _scan(self, eqn: JaxprEqn, sources: list[Sources], group: Group) -> list[Sources]:
        params = eqn.params
        consts, carried = scan_counts(params)
        loop = self.graph.add_group(group, f"{params['length']} times")
        state = self._carried(loop, sources[consts : consts + carried], eqn.invars[consts:])
        inner = params["jaxpr"].jaxpr
        inputs = sources[:consts] + [state] * carried + sources[consts + carried :]
        outputs = self.walk(inner, inputs, loop)
        self._connect_carried(outputs[:carried], state, inner.outvars)
        return [state] * carried + outputs[carried:]

    def _while(self, eqn: JaxprEqn, sources: list[Sources], group: Group) -> list[Sources]:
        params = eqn.params
        in_cond, in_body = params["cond_nconsts"], params["body_nconsts"]
        consts = in_cond + in_body
        loop = self.graph.add_group(group, "while")
        state = self._carried(loop, sources[consts:], eqn.invars[consts:])
        carried = [state] * (len(sources) - consts)
        self.walk(params["cond_jaxpr"].jaxpr, sources[:in_cond] + carried, loop)
        body = params["body_jaxpr"].jaxpr
        outputs = self.walk(body, sources[in_cond:consts] + carried, loop)
        self._connect_carried(outputs, state, body.outvars)
        return carried

    def _cond(self, eqn: JaxprEqn, sources: list[Sources], group: Group) -> list[Sources]:
        branches = eqn.params["branches"]
        outer = self.graph.add_group(group, "if" if len(branches) == 2 else "switch")
        titles = ("otherwise", "then") if len(branches) == 2 else range(len(branches))
        outputs = [sources[0]] * len(eqn.outvars)
        for title, branch in zip(titles, branches, strict=True):
            inner = self.graph.add_group(outer, str(title))
            of_branch = self.walk(branch.jaxpr, sources[1:], inner)
            outputs = [one | other for one, other in zip(outputs, of_branch, strict=True)]
        return outputs

    def _carried(self, loop: Group, sources: list[Sources], atoms: Sequence[Any]) -> Sources:
        node = self.graph.add(loop, BoxKind.CARRIED, "carried")
        for source, atom in zip(sources, atoms, strict=False):
            self.flow(source, node.index, atom)
        return frozenset([node.index])

    def _connect_carried(
        self, outputs: Sequence[Sources], state: Sources, atoms: Sequence[Any]
    ) -> None:
        [carried] = state
        for source, atom in zip(outputs, atoms, strict=False):
            self.flow(source - state, carried, atom)


_STRUCTURES = {
    "scan": _GraphBuilder._scan,
    "while": _GraphBuilder._while,
    "cond": _GraphBuilder._cond,
}


def _describe_box(eqn: JaxprEqn) -> tuple[BoxKind, list[str]] | None:
    """Return kind and lines of the node that an equation is, if it is one."""
    params, name = eqn.params, eqn.primitive.name
    linear = params.get("linear")
    if name == "quantum_circuit" or (linear and linear.circuit_params):
        return BoxKind.CIRCUIT, _format_circuit(
            linear.circuit_params if linear else params, along=bool(linear)
        )
    if linear and linear.callback:
        return BoxKind.CALLBACK, list(linear.callback)
    if name == "quantum_marked" and params["mark"].box:
        return BoxKind.CIRCUIT, list(params["mark"].box)
    if name.startswith("bellhop_") and "target" in params:
        target = params["target"]
        return BoxKind.CALLBACK, list(dict.fromkeys((target.name, target.flavour)))
    jit_name = str(params.get("name", ""))
    region = RegionName.parse(jit_name)
    if region is not None:
        return BoxKind.REGION, [region.function, region.device, _format_transfer(eqn)]
    return None


def _format_transfer(eqn: JaxprEqn) -> str:
    """Return how many bytes a region takes and gives; none are numbers of the program's text."""
    taken = [atom.aval for atom in dict.fromkeys(a for a in eqn.invars if _is_value(a))]
    given = [var.aval for var in eqn.outvars]
    sizes = (sum(map(count_bytes, each)) for each in (taken, given))
    return "{} in, {} out".format(*(format_bytes(count) or "nothing" for count in sizes))


def count_bytes(aval: Aval) -> int:
    """Return how many bytes a value is."""
    return int(aval.size * aval.dtype.itemsize)


def _is_value(atom: Any) -> bool:
    return not isinstance(atom, Literal)


def _format_circuit(params: dict[str, Any], *, along: bool) -> list[str]:
    """Return the lines of a circuit: its name, device, derivatives, and what is to run it.

    Args:
        params: of its equation.
        along: whether it is only the derivative along a tangent.
    """
    # With PennyLane, which draws nothing of a program without circuits.
    from bellhop.circuits.backends.compiled.differentiable.compiled_state import CircuitEquation
    from bellhop.circuits.ir.device_spec import describe_size

    body, batch = params["body"], params["batch"]
    device, order = body.device, body.derivative_order
    runner = "for the plugin" if body.obstacle else "for the engine"
    if along:
        runner = f"derivative along a tangent, {runner}"
    elif any(CircuitEquation(eqn).is_sweep for eqn in iterate_equations(body.closed.jaxpr)):
        runner = f"derivative along a cotangent, {runner}"
    elif order > 0:
        derivatives = "derivatives" if order == 1 else f"derivatives of order {order}"
        runner = f"with {derivatives}, {runner}"
    rows = [] if batch is None else [f"{batch.size} times"]
    return [body.name, describe_size(device.name, device.qubits), runner, *rows]


def _format_operation(eqn: JaxprEqn) -> str:
    """Return what an operation on the host is called in its box."""
    return str(eqn.params.get("name") or eqn.primitive.name).strip("_")


def _has_boxes(jaxpr: Jaxpr) -> bool:
    return any(_describe_box(eqn) is not None for eqn in iterate_equations(jaxpr))
