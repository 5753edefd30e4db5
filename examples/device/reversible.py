"""A quantum device of one's own: what PennyLane and Bellhop need of it.

``python examples/device/reversible.py`` builds it with the compiler ``c++`` and runs a ripple-carry
adder of two numbers of 100 bits on it: 301 qubits.
"""

import functools
import subprocess
import tempfile
from pathlib import Path

import pennylane as qml
from pennylane.devices import Device

import bellhop
import bellhop_runtime

HERE = Path(__file__).parent


@functools.cache
def build() -> Path:
    """Compile the device to a shared object."""
    library = Path(tempfile.mkdtemp()) / "libreversible.so"
    flags = ["-std=c++20", "-O2", "-shared", "-fPIC", f"-I{bellhop_runtime.include_dir()}"]
    subprocess.run(["c++", *flags, HERE / "reversible.cc", "-o", library], check=True)
    return library


class Reversible(Device):
    """Runs circuits of PauliX, CNOT, SWAP and Toffoli, on thousands of qubits."""

    config_filepath = str(HERE / "reversible.toml")

    @property
    def name(self):
        return "example.reversible"

    @staticmethod
    def get_c_interface():
        """Return the name of the factory, without "Factory", and the library that has it."""
        return "Reversible", str(build())

    def execute(self, circuits, execution_config=None):
        raise NotImplementedError("example.reversible runs in compiled programs only.")


def adder(bits: int):
    """Return a compiled adder of two numbers of that many bits."""
    a, b, carry = range(bits), range(bits, 2 * bits), range(2 * bits, 3 * bits + 1)

    @bellhop.qjit
    @qml.qnode(Reversible(wires=3 * bits + 1))
    def add(x, y):
        for i in range(bits):
            bellhop.cond(x[i])(lambda i=i: qml.X(a[i]))()
            bellhop.cond(y[i])(lambda i=i: qml.X(b[i]))()
        for i in range(bits):
            qml.Toffoli([a[i], b[i], carry[i + 1]])
            qml.CNOT([a[i], b[i]])
            qml.Toffoli([carry[i], b[i], carry[i + 1]])
            qml.CNOT([carry[i], b[i]])
        return [qml.expval(qml.Z(wire)) for wire in (*b, carry[bits])]

    def digits(number):
        return [bool(number >> i & 1) for i in range(bits)]

    return lambda x, y: sum(
        (z < 0) << i for i, z in enumerate(map(float, add(digits(x), digits(y))))
    )


if __name__ == "__main__":
    x, y = 3**60, 7**33
    total = adder(100)(x, y)
    print(f"{x} + {y} = {total}", "as Python says" if total == x + y else "WRONG")
