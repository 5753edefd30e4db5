"""Saved files, mutated where a file can be: in its metadata, its modules and its bytes.

python -m tests.fuzz.hostile.files decode COUNT [SEED]   reads them
python -m tests.fuzz.hostile.files run COUNT [SEED]      runs each in a child process
"""

import collections
import io
import json
import random
import re
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from tests.fuzz.hostile.children import in_child
from tests.fuzz.hostile.draws import EXTREMES

TYPES = (
    "f64",
    "f32",
    "i32",
    "i64",
    "ui32",
    "i1",
    "complex<f64>",
    "f8E4M3FN",
    "f6E2M3FN",
    "i2",
    "index",
)
SIZES = ("0x", "1x", "2x", "3x", "1000000x", "", "?x", "4611686018427387904x")
OPERATIONS = (
    "stablehlo.add",
    "stablehlo.abs",
    "stablehlo.sort",
    "stablehlo.set_dimension_size",
    "stablehlo.reshape",
    "stablehlo.convert",
    "stablehlo.bitcast_convert",
    "stablehlo.custom_call",
    "quantum.end",
    "quantum.begin",
    "quantum.gates",
    "quantum.measure",
    "quantum.restart",
    "stablehlo.dynamic_slice",
    "callback.call",
)
VALUES = (None, True, 0, -1, 2**63, 1e300, "", "x", "\ud800", [], {}, [[]], "builtins:eval", "*")


def programs():
    """Yield honest functions with their arguments."""
    import jax.numpy as jnp
    import pennylane as qml

    import bellhop

    device = qml.device("lightning.qubit", wires=3)

    @qml.qnode(device)
    def gates(x):
        qml.RX(x[0], 0)
        qml.CNOT([0, 1])
        qml.RY(x[1], 1)
        return qml.expval(qml.Z(1)), qml.probs(wires=[0, 2])

    @qml.qnode(device)
    def loop(x):
        @bellhop.for_loop(0, 3, 1)
        def body(i):
            qml.RX(x[0], i)

        body()
        m = bellhop.measure(0)
        qml.RY(x[1] * m, 1)
        return qml.expval(qml.Hermitian(np.array([[1, 2], [2, 3.0]]), 1))

    @qml.set_shots(7)
    @qml.qnode(device)
    def samples(x):
        qml.RX(x[0], 0)
        return qml.sample(), qml.counts(all_outcomes=True)

    def classical(x):
        bellhop.debug.print("x = {x}", x=x)
        q, r = jnp.linalg.qr(jnp.outer(x, x) + jnp.eye(2))
        return jnp.sort(x), q @ r, x.at[0].add(1.0), jnp.cumsum(x), jnp.fft.fft(x)

    for function in (gates, bellhop.grad(lambda x: gates(x)[0]), loop, samples, classical):
        yield function, (np.array([0.1, 0.2]),)


def save(folder):
    """Write the honest files, in a process of their own, and return their members."""
    import bellhop

    for number, (function, args) in enumerate(programs()):
        compiled = bellhop.qjit(function)
        compiled.jit_compile(args)
        compiled.save(Path(folder) / f"{number}.bellhop")


def members_of(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def pack(members):
    """Return a file with the right digest."""
    from bellhop.archive.archive import digest

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
        file.comment = digest(members)
    return packed.getvalue()


def mutated(members, draw):
    """Return a file that is not as it was saved, and the kind of what was changed."""
    members = dict(members)
    kind = draw.choices(("module", "metadata", "both", "bytes"), (12, 4, 2, 1))[0]
    if kind in ("module", "both"):
        members["0.mlir"] = module(members["0.mlir"].decode(), draw).encode(errors="replace")
    if kind in ("metadata", "both"):
        record = json.loads(members["metadata.json"])
        for _ in range(draw.choice((1, 1, 2))):
            change(record, draw)
        members["metadata.json"] = json.dumps(record).encode()
    content = pack(members)
    if kind == "bytes":
        content = bytearray(content)
        for _ in range(draw.choice((1, 3, 20))):
            content[draw.randrange(len(content))] = draw.randrange(256)
    return bytes(content), kind


def change(record, draw):
    """Replace a part of a record, however deep."""
    place = record
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = draw.choice(keys)
        deeper = isinstance(place[key], dict | list) and place[key]
        if not deeper or draw.random() < 0.15:
            # What is no string here is none of JSON's.
            value = draw.choice(VALUES)
            if isinstance(place[key], list) and place[key] and draw.random() < 0.5:
                value = [*place[key], draw.choice(place[key])]
            place[key] = value
            return
        place = place[key]


def module(text, draw):
    """Mutate the text of a module."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        text = draw.choice(_MUTATIONS)(text, draw)
    return text


def _replace(pattern, text, draw, new):
    places = list(re.finditer(pattern, text))
    if not places:
        return text
    match = draw.choice(places)
    return text[: match.start()] + new(match[0]) + text[match.end() :]


def _integer(text, draw):
    # In constants and attributes, not in names of values.
    return _replace(
        r"(?<![\w%#@.])-?\d+(?![\w.x])", text, draw, lambda _: str(draw.choice(EXTREMES))
    )


def _number(text, draw):
    new = draw.choice(("0.0", "1.0e300", "0x7FF8000000000000", "-1.5"))
    return _replace(r"\d\.\d+e[+-]\d+", text, draw, lambda _: new)


def _type(text, draw):
    return _replace(
        r"(?<=[x<])(f64|i32|i64|ui32|i1)(?=>)", text, draw, lambda _: draw.choice(TYPES)
    )


def _shape(text, draw):
    return _replace(r"(?<=tensor<)\d+x", text, draw, lambda _: draw.choice(SIZES))


def _all_shapes(text, draw):
    """Change one type everywhere, so that MLIR takes the module."""
    types = sorted(set(re.findall(r"tensor<[^>]*>", text)))
    if not types:
        return text
    old = draw.choice(types)
    new = re.sub(r"<(\d+x)?", lambda m: "<" + draw.choice(SIZES[:5]), old, count=1)
    return text.replace(old, new)


def _line(text, draw):
    lines = text.split("\n")
    place = draw.randrange(len(lines))
    match draw.randrange(3):
        case 0:
            del lines[place]
        case 1:
            lines.insert(place, lines[place])
        case _:
            other = draw.randrange(len(lines))
            lines[place], lines[other] = lines[other], lines[place]
    return "\n".join(lines)


def _operand(text, draw):
    names = re.findall(r"%[\w#:]+", text)
    return _replace(r"%[\w#]+(?=[,)])", text, draw, lambda _: draw.choice(names)) if names else text


def _operation(text, draw):
    return _replace(
        r"(stablehlo|quantum|callback)\.\w+", text, draw, lambda _: draw.choice(OPERATIONS)
    )


def _list(text, draw):
    def new(found):
        numbers = [int(each) for each in re.findall(r"-?\d+", found.partition(":")[2])]
        numbers = draw_listing(numbers, draw)
        return f"array<i64: {', '.join(map(str, numbers))}>" if numbers else "array<i64>"

    return _replace(r"array<i64(?:: [^>]*)?>", text, draw, new)


def draw_listing(numbers, draw):
    numbers = list(numbers)
    place = draw.randrange(len(numbers) + 1)
    match draw.randrange(3):
        case 0 if numbers:
            numbers[place % len(numbers)] = draw.choice(EXTREMES)
        case 1:
            numbers.insert(place, draw.choice(EXTREMES))
        case _ if numbers:
            del numbers[place % len(numbers)]
    return numbers


def _string(text, draw):
    new = draw.choice(
        ('""', '"RX:XYZ"', '"MultiRZ"', '"SingleExcitationX"', '"lightning.gpu"', '"\\00"')
    )
    return _replace(r'"[\w.:@ ]*"(?! ?\()', text, draw, lambda _: new)


_MUTATIONS = (
    *(_integer, _integer, _integer, _list, _list, _number, _type, _shape, _all_shapes, _all_shapes),
    *(_line, _operand, _operand, _operation, _string),
)


def read(path):
    """Load a file; anything but its own error is a fault."""
    import bellhop

    try:
        return bellhop.load(path)
    except bellhop.CompileError:
        return None


def load_and_run(path):
    """Load a file and call it; say what came of it."""
    import bellhop

    try:
        function = bellhop.load(path)
    except bellhop.CompileError:
        return "refused"
    try:
        for _ in range(2):
            np.asarray(function(np.array([0.1, 0.2]))[0])
    except Exception as error:
        return f"raised {type(error).__name__}"
    return "ran"


def main(kind, count, seed=0):
    """Draw files, and read or run them; return the number of those that are faults."""
    found = collections.Counter()
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        in_child(lambda: save(folder) or "saved", seconds=600)
        honest = [members_of(path) for path in sorted(Path(folder).glob("*.bellhop"))]
        assert len(honest) == 5, honest
        path = Path(folder) / "crafted.bellhop"
        for number in range(seed, seed + count):
            draw = random.Random(number)
            content, what = mutated(draw.choice(honest), draw)
            path.write_bytes(content)
            if kind == "decode":
                outcome = "refused" if read(path) is None else "read"
            else:
                outcome = in_child(lambda: load_and_run(path), seconds=60)
            found[f"{what}: {outcome}"] += 1
            if outcome.startswith("died in bellhop"):
                faults += 1
                print(f"seed {number}: {outcome}", flush=True)
            elif outcome.startswith("died"):
                print(f"seed {number}: {outcome[:300]}", flush=True)
    for outcome, times in found.most_common():
        print(f"{times:6} {outcome[:100]}")
    return faults


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1], int(sys.argv[2]), *map(int, sys.argv[3:]))))
