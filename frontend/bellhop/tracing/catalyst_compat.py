"""Options and attributes of Catalyst and of ``jax.jit`` that are not supported, and why."""

from typing import Any

from bellhop.base.source import warn_user
from bellhop.devices.devices import host_device
from bellhop.errors import CompileError
from bellhop.passes import NO_PLUGINS

# Options that change how a program is compiled, and no result.
_HINTS = {
    "abstracted_axes": "XLA compiles for one shape, so a program is made for each",
    "async_qnodes": "circuits are run one after another",
    "capture": "programs are traced without PennyLane's program capture",
    "skip_preprocess": "circuits are always checked",
    "use_nameloc": "modules hold no name locations",
}

# Options that name what would be done to the program.
_REFUSED = {
    "dialect_plugins": NO_PLUGINS,
    "pass_plugins": NO_PLUGINS,
    "pipelines": "the order of the passes is fixed; circuit_transform_pipeline adds to it",
}

_RUNS_ON_HOST = (
    "a qjit program runs on one device of the host, and takes arguments from any device. Put "
    "computations on another device with bellhop.accelerate(dev=...)"
)

# Options of jax.jit that name devices.
_OF_JAX = {
    "backend": _RUNS_ON_HOST,
    "device": _RUNS_ON_HOST,
    "in_shardings": f"{_RUNS_ON_HOST}, or partition with jax.jit around jax.shard_map",
}

# What asks for nothing that is not there.
_SILENT: dict[str, tuple[Any, ...]] = {"capture": (False, None, "global")}

_ATTRIBUTES = {
    "c_sig": "the types of the arguments are f.compiled_function.in_avals",
    "capture": "f.lower(*args) traces and lowers",
    "compile": "f.jit_compile(args) compiles, and f.lower(*args).compile() returns what it made",
    "compiler": "XLA is the compiler; f.compiled_function is what it made",
    "fn_cache": "JAX keeps the programs",
    "generate_ir": "f.lower(*args) traces and lowers, and f.mlir is the module",
    "jaxed_function": "f itself works under JAX's transformations",
    "llvm_ir": "XLA makes the machine code, and f.mlir_opt is the last module before it",
    "llvmir": "XLA makes the machine code, and f.mlir_opt is the last module before it",
    "out_type": "the types of the results are f.compiled_function.out_info",
    "overwrite_ir": "bellhop.debug.replace_ir replaces a module",
    "qir": "circuits are operations of the quantum dialect in f.mlir",
    "run": "call f itself",
    "use_cwd_for_workspace": "f.workspace is always made in the current directory",
    "user_sig": "see inspect.signature(f)",
}


def check_catalyst_option(name: str, value: object) -> bool:
    """Refuse, or ignore, an option that only Catalyst's ``qjit`` or only ``jax.jit`` has.

    Args:
        name: name of the option.
        value: value of the option; the default in Catalyst or JAX asks for nothing.

    Returns:
        whether Catalyst or JAX has such an option.

    Raises:
        CompileError: where it asks for what there is not.

    Warns:
        UserWarning: where it is without meaning here and changes no result.
    """
    if name in _OF_JAX:
        asks = value is not None and not (name == "backend" and value == "cpu")
        if asks and value != host_device():
            raise CompileError(
                f"qjit: the option '{name}' of jax.jit is not supported: {_OF_JAX[name]}."
            )
        return True
    if name not in _HINTS and name not in _REFUSED:
        return False
    asks = value not in _SILENT[name] if name in _SILENT else bool(value)
    if asks and name in _REFUSED:
        raise CompileError(f"qjit: bellhop has no option '{name}': {_REFUSED[name]}.")
    if asks:
        warn_user(f"qjit: the option '{name}' is ignored: {_HINTS[name]}.")
    return True


# Which PennyLane's layers for PyTorch and TensorFlow look for, and optimizers that change circuits.
_ATTRIBUTES_OF_QNODES = (
    *("func", "interface", "device", "diff_method", "shots", "execute_kwargs", "gradient_kwargs"),
    *("compile_pipeline", "transform_program", "construct", "tape", "qtape", "update"),
)


def missing_attribute_error(owner: object, name: str) -> AttributeError:
    """Return the error for an attribute that a qjit function has not, Catalyst's by name."""
    message = f"'{type(owner).__name__}' object has no attribute '{name}'"
    if name in _ATTRIBUTES:
        message += f", which only Catalyst's has: {_ATTRIBUTES[name]}."
    if name in _ATTRIBUTES_OF_QNODES:
        message += (
            ", which only a QNode has. What needs one takes f.user_function; and for a layer of a "
            "neural network, bellhop.to_torch makes a function of it that a torch.nn.Module may "
            "call."
        )
    return AttributeError(message, name=name, obj=owner)
