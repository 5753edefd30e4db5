"""Includes of the runtime's C++ point one way: between its folders, in the order of
runtime/README.md, and between its files, of which a header and its source are one.
"""

import re
from graphlib import TopologicalSorter
from pathlib import Path

RUNTIME = Path(__file__).parents[2] / "runtime"
SOURCES = [file for suffix in (".cc", ".h", ".inc") for file in RUNTIME.rglob(f"*{suffix}")]
OWN = [file for file in SOURCES if "python" not in file.relative_to(RUNTIME).parts]
ORDER = re.findall(r"^\| `(\w+)/` \|", (RUNTIME / "README.md").read_text(), flags=re.M)


def _includes(file):
    for name in re.findall(r'^#include "(\S+)"', file.read_text(), flags=re.M):
        if (RUNTIME / name).exists():
            yield Path(name)


def test_every_folder_has_its_place():
    assert sorted(ORDER) == sorted({file.relative_to(RUNTIME).parts[0] for file in OWN})


def test_folders_include_what_stands_before_them():
    wrong = [
        f"{file.relative_to(RUNTIME)} includes {include}"
        for file in OWN
        for include in _includes(file)
        if ORDER.index(include.parts[0]) > ORDER.index(file.relative_to(RUNTIME).parts[0])
    ]
    assert not wrong, "\n".join(wrong)


def test_files_include_each_other_in_no_circle():
    includes = {}
    for file in OWN:
        idea = file.relative_to(RUNTIME).with_suffix("")
        others = {include.with_suffix("") for include in _includes(file)}
        includes.setdefault(idea, set()).update(others - {idea})
    list(TopologicalSorter(includes).static_order())  # raises a CycleError that names them
