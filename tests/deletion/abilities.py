"""The abilities that can be deleted, with their files, their names in registries and their tests.

A backend or a pass has its name in one place.  Another ability has its name in two files at most.
"""

from dataclasses import dataclass, field

BELLHOP = "frontend/bellhop"
CIRCUITS = f"{BELLHOP}/circuits"
CHOOSE = f"{CIRCUITS}/backends/choose/choose_executor.py"
TESTS = "tests/frontend"
INIT = f"{BELLHOP}/__init__.py"


@dataclass(frozen=True)
class Ability:
    """What is deleted with an ability.

    Attributes:
        files: paths and patterns of the files that are deleted, tests left out.
        mentions: for each other file, the words whose entries are removed from it.
        tests: paths and patterns of the tests that are deleted too.
        deselected: a part of the names of remaining tests that need the ability.
    """

    files: tuple[str, ...]
    mentions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tests: tuple[str, ...] = ()
    deselected: str = ""


ABILITIES = {
    "stim": Ability(
        files=(f"{CIRCUITS}/backends/stim",),
        mentions={CHOOSE: ("DefaultClifford", "STIM")},
        tests=(f"{TESTS}/circuits/clifford",),
    ),
    "null": Ability(
        files=(f"{CIRCUITS}/backends/null",),
        mentions={CHOOSE: ("null.qubit", "NULL")},
        tests=(f"{TESTS}/circuits/in_program/test_null_device.py",),
    ),
    "tapes": Ability(
        files=(f"{CIRCUITS}/backends/tapes",),
        mentions={CHOOSE: ("run_on_python_device",)},
        tests=(f"{TESTS}/circuits/python_devices",),
    ),
    "arrays": Ability(
        files=(f"{CIRCUITS}/backends/arrays",),
        mentions={CHOOSE: ("run_on_arrays",)},
        tests=(f"{TESTS}/circuits/in_program",),
        # default.qubit's circuits that the engine does not differentiate need arrays.
        deselected="arrays or default.qubit",
    ),
    "shadows": Ability(
        files=(f"{CIRCUITS}/measure/shadows.py",),
        mentions={
            f"{CIRCUITS}/measure/measurement_registry.py": ("ClassicalShadow", "ShadowExpval")
        },
        tests=(f"{TESTS}/circuits/measure/*shadow*",),
    ),
    "user measurements": Ability(
        files=(
            f"{CIRCUITS}/measure/user_measurements.py",
            f"{CIRCUITS}/measure/sample_mean_derivative.py",
        ),
        mentions={f"{CIRCUITS}/measure/measurement_registry.py": ("UserSampleProcess",)},
    ),
    "host_callback": Ability(
        files=(f"{BELLHOP}/host_callback.py",),
        mentions={INIT: ("host_callback",)},
        tests=(f"{TESTS}/test_host_callback.py",),
    ),
    "drawing": Ability(
        files=(f"{BELLHOP}/drawing",),
        mentions={INIT: ("Drawing", "draw", "draw_graph")},
        tests=(f"{TESTS}/drawing",),
    ),
    "frameworks": Ability(
        files=(f"{BELLHOP}/frameworks",),
        mentions={INIT: ("TorchFunction", "call_torch", "to_torch")},
        tests=(f"{TESTS}/frameworks",),
    ),
    "mitigation": Ability(
        files=(f"{BELLHOP}/mitigate.py",),
        mentions={INIT: ("mitigate_with_zne",)},
    ),
    "cache": Ability(
        files=(f"{BELLHOP}/cache.py",),
        mentions={INIT: ("enable_cache",)},
        tests=(f"{TESTS}/test_cache_folder.py",),
    ),
    "doctor": Ability(
        files=(f"{BELLHOP}/doctor.py", f"{BELLHOP}/__main__.py"),
        tests=(f"{TESTS}/test_doctor.py",),
    ),
}
