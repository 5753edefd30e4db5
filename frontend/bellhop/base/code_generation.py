"""Which of XLA's code generators makes the kernels of a program.

jaxlib 0.10 has two for the CPU, whose kernels compute the same values in the same time (60 kinds
were compared; some are faster by the one, some by the other).  The newer one, its default, runs a
pipeline of MLIR's for each kernel, which takes 10 to 15 ms where the older one takes 3 to 5; but it
makes kernels that are equal once, and the older one each of them.  A hybrid program is many small
kernels between calls of the runtime.  Most differ, and it is compiled by the older one; where
hundreds of callbacks get ``x + i``, by the newer one.  jaxlib 0.11 has only that.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import jaxlib

HAS_BOTH = tuple(map(int, jaxlib.__version__.split(".")[:2])) < (0, 11)

#: For ``jax.jit``, by whether the program repeats its kernels.
COMPILER_OPTIONS: dict[bool, dict[str, bool] | None] = {
    repeats: {"xla_cpu_use_fusion_emitters": repeats} if HAS_BOTH else None
    for repeats in (False, True)
}

# What the newer generator takes for a kernel, by what the older one does.
_COST = 4
#: Programs of fewer kernels are compiled soon enough.
FEW = 16

_CONSTANT = re.compile(r"(%\w+) = stablehlo\.constant (.*)")
# No part of a kernel are calls of the runtime, and where blocks begin and end.
_OPERATION = re.compile(r"%\w+(:\d+)? = (?!stablehlo\.custom_call).*[^{]$")
_VALUE = re.compile(r"%\w+")


def repeats_kernels(module: str) -> bool:
    """Tell whether XLA compiles a module sooner where it makes equal kernels once.

    What stands between two calls of the runtime counts as one kernel, or as many as it has
    results and values that are used more than once: what else there is becomes part of these.
    """
    every = 0
    distinct: dict[tuple[str, ...], int] = {}
    for key, kernels in _runs(module):
        every += kernels
        distinct[key] = kernels
    return every > _COST * sum(distinct.values()) + FEW


def _runs(module: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield what each run of operations has in common with equal ones, and its kernels."""
    constants: dict[str, str] = {}
    run: list[str] = []
    for line in map(str.strip, module.splitlines()):
        if constant := _CONSTANT.match(line):
            constants[constant[1]] = constant[2]
        elif _OPERATION.match(line):
            run.append(line)
        elif run:
            yield _key(run, constants), _kernels(run)
            run = []


def _key(run: Sequence[str], constants: Mapping[str, str]) -> tuple[str, ...]:
    # A kernel holds its constants, but the only operation on scalars takes them as operands.
    if len(run) == 1 and "x" not in run[0].rpartition(" : ")[2]:
        constants = {}
    return tuple(_VALUE.sub(lambda value: constants.get(value[0], "%"), line) for line in run)


def _kernels(run: Sequence[str]) -> int:
    values = [_VALUE.findall(line) for line in run]
    uses = Counter(operand for _, *taken in values for operand in taken)
    return sum(uses[made] != 1 for made, *_ in values)
