"""Unsupported options and attributes of Catalyst and ``jax.jit``."""

from typing import Any

from bellhop.base.source import warn_user
from bellhop.devices.devices import host_device
from bellhop.errors import CompileError
from bellhop.passes import NO_PLUGINS

# Options that change compilation but not results. The warning names the option, and ends with this
# reason.
_HINTS = {
    "abstracted_axes": "XLA compiles one program for each shape",
    "async_qnodes": "circuits are run one after another",
    "capture": "programs are traced without PennyLane's program capture",
    "skip_preprocess": "circuits are always checked",
    "use_nameloc": "modules hold no name locations",
}

# Options that would change the program. The error names the option, and ends with this reason.
_UNSUPPORTED = {
    "dialect_plugins": NO_PLUGINS,
    "pass_plugins": NO_PLUGINS,
    "pipelines": "the order of the passes is fixed; circuit_transform_pipeline adds to it",
}

_RUNS_ON_HOST = (
    "a qjit program runs on one device of the host, and takes arguments from any device. Put "
    "computations on another device with bellhop.accelerate(dev=...)"
)

# Options of jax.jit that name devices.
_JAX_OPTIONS = {
    "backend": _RUNS_ON_HOST,
    "device": _RUNS_ON_HOST,
    "in_shardings": f"{_RUNS_ON_HOST}, or partition with jax.jit around jax.shard_map",
}

# Values of options that have no effect.
_SILENT: dict[str, tuple[Any, ...]] = {"capture": (False, None, "global")}

_ATTRIBUTES = {
    "c_sig": "use f.compiled_function.in_avals",
    "capture": "f.lower(*args) traces and lowers",
    "compile": "use f.jit_compile(args), or f.lower(*args).compile()",
    "compiler": "XLA is the compiler; use f.compiled_function",
    "fn_cache": "JAX caches the programs",
    "generate_ir": "f.lower(*args) traces and lowers, and f.mlir is the module",
    "jaxed_function": "f itself works under JAX's transformations",
    "llvm_ir": "XLA generates the machine code; use f.mlir_opt",
    "llvmir": "XLA generates the machine code; use f.mlir_opt",
    "out_type": "use f.compiled_function.out_info",
    "overwrite_ir": "bellhop.debug.replace_ir replaces a module",
    "qir": "circuits are operations of the quantum dialect in f.mlir",
    "run": "call f itself",
    "use_cwd_for_workspace": "f.workspace is always made in the current directory",
    "user_sig": "see inspect.signature(f)",
}


# Options of QNodes, and where to set them.
_QNODE_OPTIONS = {
    "shots": "Shots belong to the QNode: put @qml.set_shots(100) between @qjit and @qml.qnode.",
    **dict.fromkeys(
        ("diff_method", "gradient_kwargs", "interface", "mcm_method", "postselect_mode"),
        "Pass it to the QNode: @qml.qnode(device, {name}=...).",
    ),
    "wires": "Pass it to the device: qml.device(name, wires=...).",
}


def advise_on_qnode_option(name: str) -> str:
    """Return advice where to set a QNode's or device's option passed to qjit.

    Args:
        name: name of the option, such as ``shots``.

    Returns:
        a sentence for an error; an empty string for other options.
    """
    return _QNODE_OPTIONS.get(name, "").format(name=name)


def check_catalyst_option(name: str, value: object) -> bool:
    """Raise an error or warn for an option of Catalyst's ``qjit`` or of ``jax.jit``.

    Nothing happens for the default value of Catalyst or JAX, and for unknown names.

    Args:
        name: name of an option that Bellhop's ``qjit`` does not have.
        value: value of the option.

    Returns:
        whether Catalyst or JAX has the option.

    Raises:
        CompileError: if the option would change results or placement.

    Warns:
        UserWarning: if the option has no effect here and changes no result.
    """
    if name in _JAX_OPTIONS:
        is_set = value is not None and not (name == "backend" and value == "cpu")
        if is_set and value != host_device():
            raise CompileError(
                f"qjit: the option '{name}' of jax.jit is not supported: {_JAX_OPTIONS[name]}."
            )
        return True
    if name not in _HINTS and name not in _UNSUPPORTED:
        return False
    is_set = value not in _SILENT[name] if name in _SILENT else bool(value)
    if is_set and name in _UNSUPPORTED:
        raise CompileError(f"qjit: there is no option '{name}': {_UNSUPPORTED[name]}.")
    if is_set:
        warn_user(f"qjit: the option '{name}' is ignored: {_HINTS[name]}.")
    return True


# Attributes that PennyLane's PyTorch and TensorFlow layers, and circuit-changing optimizers, read.
_QNODE_ATTRIBUTES = (
    *("func", "interface", "device", "diff_method", "shots", "execute_kwargs", "gradient_kwargs"),
    *("compile_pipeline", "transform_program", "construct", "tape", "qtape", "update"),
)


def missing_attribute_error(owner: object, name: str) -> AttributeError:
    """Return the error for a missing attribute of a qjit function.

    For attributes of Catalyst's qjit functions and of QNodes, the message names alternatives. The
    error has the attributes ``name`` and ``obj``, as Python sets them.
    """
    message = f"'{type(owner).__name__}' object has no attribute '{name}'"
    if name in _ATTRIBUTES:
        message += f" (of Catalyst): {_ATTRIBUTES[name]}."
    if name in _QNODE_ATTRIBUTES:
        message += (
            " (of a QNode). Pass the QNode, f.user_function; for a layer of a neural network, "
            "use bellhop.to_torch, which returns a function for a torch.nn.Module."
        )
    return AttributeError(message, name=name, obj=owner)
