"""Hostile values, and circuits to put them into."""

import math
import random

from tests.fuzz.hostile.call_frames import LARGEST_BUFFER

NAMES = (
    *(
        "RX",
        "RY",
        "RZ",
        "Rot",
        "CNOT",
        "CRX",
        "Hadamard",
        "PauliX",
        "IsingXX",
        "MultiRZ",
        "PauliRot:XYZ",
    ),
    *(
        "PauliRot:II",
        "GlobalPhase",
        "QubitUnitary",
        "StatePrep",
        "BasisState",
        "Identity",
        "Toffoli",
    ),
    *(
        "SingleExcitation",
        "DoubleExcitationPlus",
        "SingleExcitationOdd",
        "PCPhase",
        "PSWAP",
        "Nonsense",
    ),
    *("S", "CSWAP", "PhaseShift@x.py:1", "CRot", "IsingXY", "RX:XX"),
)
SHAPES = {
    "RX": (1, 1),
    "RY": (1, 1),
    "RZ": (1, 1),
    "Rot": (3, 1),
    "CNOT": (0, 2),
    "CRX": (1, 2),
    "Hadamard": (0, 1),
    "PauliX": (0, 1),
    "IsingXX": (1, 2),
    "MultiRZ": (1, 2),
    "PauliRot:XYZ": (1, 3),
    "PauliRot:II": (1, 2),
    "GlobalPhase": (1, 0),
    "QubitUnitary": (8, 1),
    "StatePrep": (4, 1),
    "BasisState": (2, 2),
    "Identity": (0, 1),
    "Toffoli": (0, 3),
    "SingleExcitation": (1, 2),
    "DoubleExcitationPlus": (1, 4),
    "S": (0, 1),
    "CSWAP": (0, 3),
    "CRot": (3, 2),
    "IsingXY": (1, 2),
    "PSWAP": (1, 2),
    "PhaseShift@x.py:1": (1, 1),
    "PCPhase": (2, 2),
}
EXTREMES = (
    *(
        -1,
        -2,
        -3,
        0,
        1,
        2,
        3,
        4,
        7,
        8,
        31,
        32,
        33,
        63,
        64,
        65,
        255,
        1023,
        2**30,
        2**30 + 1,
        2**31 - 1,
    ),
    *(-(2**31), 2**31, 2**32, 2**40, 2**61, 2**62, 2**63 - 1, -(2**63), 5 * 2**34 - 1, -5 * 2**34),
)
NUMBERS = (
    0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    3.0,
    1e300,
    math.nan,
    math.inf,
    -math.inf,
    2.0**40,
    2.0**70,
    0.25,
)
DIMENSIONS = (0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 2**20, 2**40, 2**62)


class Random(random.Random):
    """Random choices of hostile values."""

    def integer(self):
        return self.choice(EXTREMES) if self.random() < 0.7 else self.randrange(-5, 12)

    def shape(self, shape):
        """Mutate a shape, keeping it one that XLA would allocate."""
        shape = list(shape)
        for _ in range(4):
            kind = self.randrange(4)
            if kind == 0 and shape:
                shape[self.randrange(len(shape))] = self.choice(DIMENSIONS)
            elif kind == 1:
                shape.insert(self.randrange(len(shape) + 1), self.choice(DIMENSIONS))
            elif kind == 2 and shape:
                del shape[self.randrange(len(shape))]
            if self.random() < 0.6:
                break
        if math.prod(shape) * 16 > LARGEST_BUFFER:
            shape = [size if size <= 9 else 0 for size in shape]
        return tuple(shape)

    def listing(self, values):
        """Mutate a list of integers."""
        values = list(values)
        for _ in range(self.choice((1, 1, 1, 2, 3))):
            kind = self.randrange(5)
            place = self.randrange(len(values) + 1)
            if kind <= 2 and values:
                values[place % len(values)] = self.integer()
            elif kind == 3:
                values.insert(place, self.integer())
            elif values:
                del values[place % len(values)]
        return [min(max(value, -(2**63)), 2**63 - 1) for value in values]


def gates(draw, qubits, n_dynamic):
    """Return names, code and constants of some gates, and how many parameters they take."""
    chosen = draw.sample(NAMES, draw.randrange(1, 5))
    code, slot = [], 0
    for _ in range(draw.randrange(1, 6)):
        number = draw.randrange(len(chosen))
        params, wires = SHAPES.get(chosen[number], (1, 1))
        controls = draw.choice((0, 0, 0, 1))
        if wires + controls > qubits:
            continue
        places = draw.sample(range(qubits), wires + controls)
        if n_dynamic and places and draw.random() < 0.4:
            places[0] = -1 - draw.randrange(n_dynamic)
        slots = [draw.choice((slot + i, -1 - i)) for i in range(params)]
        if draw.random() < 0.5:
            slots = list(range(slot, slot + params))
        slot = max([slot, *(each + 1 for each in slots)])
        code += [number, draw.randrange(2), params, wires, controls, *slots, *places]
        code += [draw.randrange(2) for _ in range(controls)]
    return "\n".join(chosen), code, [draw.choice((0.0, 1.0, 0.3)) for _ in range(8)], slot


def measurements(draw, qubits, shots):
    """Return the code of some measurements and the types of their results."""
    code, results = [], []
    for _ in range(draw.choice((1, 1, 2, 3))):
        wires = draw.sample(range(qubits), draw.randrange(1, qubits + 1))
        kind = draw.choice((0, 0, 1, 2, 3) if shots == 0 else (4, 5, 6, 7, 8, 0))
        if kind in (0, 1):
            observable = draw.choice(
                (
                    [3, wires[0]],
                    [4, wires[0]],
                    [6, 2, 1, wires[0], 3, (wires[0] + 1) % qubits],
                    [7, 2, 0, 1, wires[0], 3, wires[0]],
                    [5, 1, wires[0], 0],
                    [6, 1, 6, 1, 3, wires[0]],
                    [7, 1, 0, 7, 1, 1, 2, wires[0]],
                )
            )
            code += [kind, *observable]
            results.append(("f64", ()))
        elif kind == 2:
            code += [2, len(wires), *wires]
            results.append(("f64", (2 ** len(wires),)))
        elif kind == 3:
            code += [3]
            results.append(("c128", (2**qubits,)))
        elif kind == 4:
            code += [4, len(wires), *wires]
            results.append(("ui8", (shots, len(wires))))
        elif kind == 5:
            code += [5, len(wires), *wires, 1, wires[0], 2, 1, shots - 1]
            results.append(("f64", (2, 2 ** len(wires))))
        elif kind == 6:
            given = draw.choice(([0], [shots * len(wires), 0]))
            code += [6, len(wires), *wires, *given]
            results.append(("ui8", (shots, 2, len(wires))))
        elif kind == 7:
            code += [7, len(wires), *wires, 0, 1, shots, 1, *[draw.randrange(4) for _ in wires]]
            results.append(("f64", (1, 1)))
        else:
            code += [8]
            results.append(("ui8", (shots,)))
    return code, results
