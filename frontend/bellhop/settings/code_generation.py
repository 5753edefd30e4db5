"""Choice of XLA's generator of CPU kernels.

jaxlib 0.10 has two generators.  The newer generator is XLA's default: its kernels for large arrays
run up to twice as fast, it compiles equal kernels once, and it compiles any length of straight-line
code, where the older generator overflows the stack.  But each of its kernels takes 10 to 15 ms to
compile, and 3 to 5 ms by the older generator.  A hybrid program is many small kernels between calls
of the runtime, so such a program takes the older generator where nothing in the program runs
faster by the newer generator.

``python -m benchmarks.ratios generators`` measures both.  jaxlib 0.11 has the newer generator only.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import jaxlib

HAS_BOTH = tuple(map(int, jaxlib.__version__.split(".")[:2])) < (0, 11)

#: XLA's option for the older generator.
OLDER_GENERATOR = {"xla_cpu_use_fusion_emitters": False}

# The elements of the largest array up to which a program takes the same time by both generators.
# In a loop the kernels' own time counts, and outside what it takes to call them.
_SMALL = 256
_SMALL_IN_LOOPS = 32
# The operations up to which the older generator compiles in time and in the stack that it has.
_SHORT = 1000
# What the newer generator takes for a kernel, by what the older generator takes.
_COST = 4
#: The number of kernels up to which a program compiles soon enough by the older generator.
FEW_KERNELS = 16

_ARRAY = re.compile(r"tensor<((?:\d+x)+)")
_CONSTANT = re.compile(r"(%\w+) = stablehlo\.constant (.*)")
# A kernel ends at a call of the runtime, and where a block begins or ends.
_OPERATION = re.compile(r"%\w+(:\d+)? = (?!stablehlo\.custom_call).*[^{]$")
_VALUE = re.compile(r"%\w+")


def is_small(module: str) -> bool:
    """Return whether a module takes the same time to run by both generators.

    Args:
        module: text of the module.
    """
    if module.count(" = stablehlo.") > _SHORT:
        return False
    most = _SMALL_IN_LOOPS if "stablehlo.while" in module else _SMALL
    return all(_size(shape) <= most for shape in set(_ARRAY.findall(module)))


def _size(shape: str) -> int:
    """Return the number of elements of a shape, written as ``4x8x``."""
    size = 1
    for length in shape.split("x")[:-1]:
        size *= int(length)
    return size


def repeats_kernels(module: str) -> bool:
    """Return whether a module compiles sooner where equal kernels are compiled once.

    The operations between two calls of the runtime count as one kernel, or as the number of values
    among these operations that are results or are used more than once: XLA fuses other values into
    their users.

    Args:
        module: text of the module.
    """
    every = 0
    distinct: dict[tuple[str, ...], int] = {}
    for key, kernels in _runs(module):
        every += kernels
        distinct[key] = kernels
    return every > _COST * sum(distinct.values()) + FEW_KERNELS


def _runs(module: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield a key that equal runs of operations share, and the run's number of kernels."""
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
    """Return the run's text without names of values."""
    # Constants are part of a kernel, except that a single operation on scalars takes operands.
    if len(run) == 1 and "x" not in run[0].rpartition(" : ")[2]:
        constants = {}
    return tuple(_VALUE.sub(lambda value: constants.get(value[0], "%"), line) for line in run)


def _kernels(run: Sequence[str]) -> int:
    """Return the number of values of a run that are results or are used more than once."""
    values = [_VALUE.findall(line) for line in run]
    uses = Counter(operand for _, *taken in values for operand in taken)
    return sum(uses[made] != 1 for made, *_ in values)
