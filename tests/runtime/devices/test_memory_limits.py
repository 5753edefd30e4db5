"""How much memory a process may have, and circuits that the system refuses memory."""

import math

import pytest

import bellhop_runtime

GIB = 2**30
FILES = {
    "version 2": (
        "0::/user.slice/job\n",
        {
            "user.slice/job/memory.max": "max",
            "user.slice/memory.max": 3 * GIB,
            "user.slice/memory.current": GIB,
        },
    ),
    "version 1": (
        "12:cpu:/\n4:cpuacct,memory:/docker/1a2b\n1:name=systemd:/docker\n",
        {
            "memory/docker/1a2b/memory.limit_in_bytes": 3 * GIB,
            "memory/docker/1a2b/memory.usage_in_bytes": GIB,
            "memory/memory.limit_in_bytes": 9223372036854771712,
        },
    ),
    "a namespace": ("0::/\n", {"memory.max": 3 * GIB, "memory.current": GIB}),
}


def write(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


@pytest.mark.parametrize("kind", FILES)
def test_limits_of_cgroups_are_read(tmp_path, kind):
    groups, files = FILES[kind]
    write(tmp_path, "proc/self/cgroup", groups)
    assert bellhop_runtime.memory_for_process(root=str(tmp_path)) == math.inf
    for path, value in files.items():
        write(tmp_path, f"sys/fs/cgroup/{path}", value)
    assert bellhop_runtime.memory_for_process(root=str(tmp_path)) == 3 * GIB
    assert bellhop_runtime.memory_for_process(all=False, root=str(tmp_path)) == 2 * GIB
    write(tmp_path, "proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 524288 kB")
    assert bellhop_runtime.memory_for_process(root=str(tmp_path)) == GIB
    assert bellhop_runtime.memory_for_process(all=False, root=str(tmp_path)) == GIB / 2


LIMITED = """
import resource
import bellhop, bellhop_runtime, pennylane as qml

def circuit(wires, engine):
    @bellhop.qjit(engine=engine)
    @qml.qnode(qml.device("lightning.qubit", wires=wires))
    def circuit(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))
    return circuit

circuit(2, {engine!r})(0.5)
circuits = [circuit(wires, {engine!r}) for wires in {wires}]
for each in circuits:
    each.jit_compile((0.5,))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**23, -1))
print(bellhop_runtime.memory_for_process(False) < 2**27)
for each in circuits:
    try:
        each(0.5)
    except bellhop.CircuitError as error:
        print(error)
"""


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("engine", "wires"),
    [("auto", (24, 22)), ("plugin", (24,))],
)
def test_a_limit_is_an_error_that_names_what_there_is(run_script, engine, wires):
    script = LIMITED.format(engine=engine, wires=wires)
    is_less, *errors = run_script(script).splitlines()
    assert is_less == "True"
    assert len(errors) == len(wires)
    assert "24 qubits" in errors[0]
    assert "0.25 GiB of memory" in errors[0]
    for error in errors:
        assert "the QNode 'circuit'" in error
        assert "GiB" in error
        assert "bad_alloc" not in error
