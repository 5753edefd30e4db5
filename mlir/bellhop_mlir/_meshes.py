"""The meshes of a module, over which operations of it are partitioned: ``sdy.mesh @mesh``."""

import math
import re

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import find_functions, find_symbols, list_operations, string_attribute

_AXIS = re.compile(r'"=(\d+)')


def find_meshes(module: ir.Module | ir.Operation) -> list[ir.Operation]:
    """Return the meshes of a module."""
    return list(find_symbols(module, "sdy.mesh").values())


def count_mesh_devices(mesh: ir.Operation) -> int:
    """Return how many devices a mesh has."""
    return math.prod(int(axis) for axis in _AXIS.findall(str(mesh)))


def drop_unused_meshes(module: ir.Module | ir.Operation) -> None:
    """Erase the meshes that no function of a module refers to."""
    found = find_meshes(module)
    if not found:
        return
    # An attribute that refers to one is opaque to MLIR's Python API: shardings, and from JAX 0.12
    # on the groups of a collective. Constants refer to none, their texts may be long, and those of
    # complex numbers are attributes that the API does not read.
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
