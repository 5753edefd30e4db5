"""Choice between two code generators of XLA for CPU kernels.

jaxlib 0.10 has two generators. XLA's default is the newer generator: its kernels for large arrays
run up to twice as fast, it compiles equal kernels once, and it compiles straight-line code of any
length, where the older generator overflows the stack. But it takes 10 to 15 ms to compile each
kernel, and the older generator takes 3 to 5 ms. A hybrid program consists of many small kernels
between calls of the runtime, so such a program uses the older generator, unless some part of the
program runs faster with the newer generator.

``python -m benchmarks.ratios generators`` measures both. jaxlib 0.11 has the newer generator only.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from jaxlib.version import __version_info__

HAS_BOTH = __version_info__ < (0, 11)

#: XLA's option for the older generator.
OLDER_GENERATOR = {"xla_cpu_use_fusion_emitters": False}

# A program whose arrays have at most this number of elements runs equally fast with both
# generators. The limit is lower in loops, where the time inside of kernels dominates.
_SMALL = 256
_SMALL_IN_LOOPS = 32
# Programs of at most this number of operations compile in time, and without stack overflow, with
# the older generator.
_SHORT = 1000
# Compile time per kernel of the newer generator, divided by the older generator's time.
_COST = 4
#: Programs of at most this number of kernels always compile fast enough with the older generator.
FEW_KERNELS = 16

_ARRAY = re.compile(r"tensor<((?:\d+x)+)")
_CONSTANT = re.compile(r"(%\w+) = stablehlo\.constant (.*)")
# A kernel ends at a call of the runtime, and where a block begins or ends.
_OPERATION = re.compile(r"%\w+(:\d+)? = (?!stablehlo\.custom_call).*[^{]$")
_VALUE = re.compile(r"%\w+")


def is_equally_fast(module: str) -> bool:
    """Return whether a module runs equally fast with both code generators for CPUs.

    This is so for small arrays; then the older generator is chosen, as it compiles faster. False
    also for modules that are too long for the older generator.

    Args:
        module: the program in StableHLO, as text.
    """
    if module.count(" = stablehlo.") > _SHORT:
        return False
    most = _SMALL_IN_LOOPS if "stablehlo.while" in module else _SMALL
    return all(_size(shape) <= most for shape in set(_ARRAY.findall(module)))


def _size(shape: str) -> int:
    """Return the number of elements of a shape in MLIR text, such as 32 for ``4x8x``."""
    size = 1
    for length in shape.split("x")[:-1]:
        size *= int(length)
    return size


def repeats_kernels(module: str) -> bool:
    """Return whether a module's many equal kernels make the newer generator faster.

    XLA's newer generator takes about four times as long for each kernel, but compiles equal kernels
    only once.

    Args:
        module: the program in StableHLO after all passes, as text.
    """
    every = 0
    distinct: dict[tuple[str, ...], int] = {}
    for key, kernels in _iterate_sequences(module):
        every += kernels
        distinct[key] = kernels
    return every > _COST * sum(distinct.values()) + FEW_KERNELS


def _iterate_sequences(module: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Split a module into operation sequences, at runtime calls and ends of blocks.

    Yields:
        for each sequence, a key, which is equal for sequences that compile to equal kernels, and
        an estimate of the number of kernels.
    """
    constants: dict[str, str] = {}
    sequence: list[str] = []
    for line in map(str.strip, module.splitlines()):
        if constant := _CONSTANT.match(line):
            constants[constant[1]] = constant[2]
        elif _OPERATION.match(line):
            sequence.append(line)
        elif sequence:
            yield _get_sequence_key(sequence, constants), _count_kernels(sequence)
            sequence = []


def _get_sequence_key(sequence: Sequence[str], constants: Mapping[str, str]) -> tuple[str, ...]:
    """Return a key that is equal for sequences that compile to equal kernels.

    It is the lines of the operations, with SSA names of constants replaced by the constants, and
    all other SSA names by ``%``. In a sequence of one scalar operation, whose kernel takes
    constants as operands, all names become ``%``.

    Args:
        sequence: lines of the operations.
        constants: text of each constant, such as ``dense<1.0> : tensor<f64>``, by its SSA name.
    """
    # XLA compiles constants into a kernel; a single scalar operation takes them as operands.
    if len(sequence) == 1 and "x" not in sequence[0].rpartition(" : ")[2]:
        constants = {}
    return tuple(_VALUE.sub(lambda value: constants.get(value[0], "%"), line) for line in sequence)


def _count_kernels(sequence: Sequence[str]) -> int:
    """Estimate the number of kernels to which XLA compiles a sequence of operations.

    It is the number of values without a use in the sequence or with several uses, as XLA fuses all
    other values into their users.

    Args:
        sequence: lines of MLIR text, one for each operation.
    """
    values = [_VALUE.findall(line) for line in sequence]
    uses = Counter(operand for _, *operands in values for operand in operands)
    return sum(uses[result] != 1 for result, *_ in values)
