"""Passes that Catalyst has and we have not, and why."""

NO_PLUGINS = "there are no plugins of MLIR"
_PAULI = "circuits are of gates here, not of Pauli product rotations and measurements"
_PASSES = {
    "Pass": 'a pass is its name: bellhop.pipeline({"merge-rotations": {}})',
    "PassPlugin": NO_PLUGINS,
    "apply_pass_plugin": NO_PLUGINS,
    "disentangle_cnot": "gates are kept that act on what the circuit prepares",
    "disentangle_swap": "gates are kept that act on what the circuit prepares",
    "graph_decomposition": "qml.transforms.decompose(gate_set=...) decomposes circuits",
    "ions_decomposition": "qml.transforms.decompose(gate_set=...) decomposes circuits",
    "parity_synth": "phase polynomials are not looked for",
} | dict.fromkeys(
    (
        *("commute_ppr", "decompose_arbitrary_ppr", "merge_ppr_ppm", "ppm_compilation"),
        *("ppm_specs", "ppr_to_mbqc", "ppr_to_ppm", "reduce_t_depth", "to_ppr"),
    ),
    _PAULI,
)


def missing_pass(module: str, name: str) -> AttributeError:
    """Return the error for what a module of passes has not, Catalyst's by name."""
    message = f"module '{module}' has no attribute '{name}'"
    if name in _PASSES:
        message += f", which only Catalyst's has: {_PASSES[name]}."
    return AttributeError(message, name=name)
