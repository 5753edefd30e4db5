"""Builds the stand-in for a GPU from its sources, once for each state of them."""

import hashlib
import importlib.util
import os
import subprocess
import sysconfig
from pathlib import Path

import jax
import jaxlib
from tests.needs import COMPILER, Need

_SOURCES = Path(__file__).parent
_BUILT = _SOURCES.parents[1] / "build" / "standin"
# XLA's CPU client behind the PJRT C API, which jaxlib has no such library of.
CLIENT = "lammps-jax-pjrt-cpu==0.11.2"


class UnavailableError(Exception):
    """The stand-in cannot be had here.

    Attributes:
        need: what is missing.
    """

    def __init__(self, need: Need) -> None:
        super().__init__(need.reason)
        self.need = need


def environment() -> dict[str, str]:
    """Return the variables by which JAX finds the stand-in, which is built if need be.

    Raises:
        UnavailableError: where the client or a compiler is missing.
    """
    device = _library("device.c", ["cc", "-std=c11"], ["-ldl", "-lpthread"])
    includes = [f"-I{jax.ffi.include_dir()}", f"-I{sysconfig.get_path('include')}"]
    callbacks = _library("callbacks.cc", ["c++", "-std=c++17", *includes], [])
    path = [str(_SOURCES / "plugin"), os.environ.get("PYTHONPATH", "")]
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "STANDIN_CLIENT": str(_client()),
        "STANDIN_DEVICE": str(device),
        "STANDIN_CALLBACKS": str(callbacks),
    }


def _client() -> Path:
    package = importlib.util.find_spec("lammps_jax_pjrt_cpu")
    if package is None or package.origin is None:
        raise UnavailableError(
            Need("the client of the stand-in for a GPU", f"pip install --no-deps {CLIENT}")
        )
    return Path(package.origin).with_name("pjrt_c_api_cpu_plugin.so")


def _library(source: str, compiler: list[str], libraries: list[str]) -> Path:
    path = _SOURCES / source
    command = [*compiler, "-O1", "-Wall", "-Wextra", "-shared", "-fPIC", str(path), *libraries]
    # The headers of another jaxlib may be other ones.
    state = "\0".join([path.read_text(), jaxlib.__version__, *command])
    built = _BUILT / f"{path.stem}-{hashlib.blake2b(state.encode(), digest_size=8).hexdigest()}.so"
    if built.exists():
        return built
    built.parent.mkdir(parents=True, exist_ok=True)
    # Another process may be building the same.
    unfinished = built.with_suffix(f".{os.getpid()}")
    try:
        done = subprocess.run([*command, "-o", unfinished], capture_output=True, text=True)
    except OSError as error:
        raise UnavailableError(COMPILER) from error
    if done.returncode:
        raise RuntimeError(f"{source} does not compile:\n{done.stderr}")
    os.replace(unfinished, built)
    return built
