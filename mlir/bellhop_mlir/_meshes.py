"""Meshes (``sdy.mesh``) of a module, over which its operations are partitioned."""

import math
import re

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import find_functions, find_symbols, list_operations, string_attribute

_AXIS = re.compile(r'"=(\d+)')


def find_meshes(module: ir.Module | ir.Operation) -> list[ir.Operation]:
    """Return the ``sdy.mesh`` operations at the top level of a module."""
    return list(find_symbols(module, "sdy.mesh").values())


def count_mesh_devices(mesh: ir.Operation) -> int:
    """Return the number of devices of a ``sdy.mesh``, the product of its axis sizes."""
    return math.prod(int(axis) for axis in _AXIS.findall(str(mesh)))


def drop_unused_meshes(module: ir.Module | ir.Operation) -> None:
    """Erase the ``sdy.mesh`` operations to which no function refers."""
    found = find_meshes(module)
    if not found:
        return
    # MLIR's Python API cannot read attributes that refer to meshes (shardings, and from JAX 0.12 on
    # groups of collectives), so search their text. Constants do not refer to meshes, and can be
    # long or unreadable.
    texts = [
        str(value)
        for function in find_functions(module).values()
        for op in (function, *list_operations(function))
        if op.name != "stablehlo.constant"
        for value in op.attributes.values()
    ]
    for mesh in found:
        reference = re.compile(rf'@"?{re.escape(string_attribute(mesh, "sym_name"))}"?\b')
        if not any(map(reference.search, texts)):
            mesh.erase()
