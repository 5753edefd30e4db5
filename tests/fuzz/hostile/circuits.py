"""Circuits as calls of handlers, mutated at any place that a module of a file decides."""

import math
import random

import numpy as np
from tests.fuzz.hostile.call_frames import LARGEST_BUFFER, Machine

NAMES = (
    *("RX", "RY", "RZ", "Rot", "CNOT", "CRX", "Hadamard", "PauliX", "IsingXX", "MultiRZ", "PauliRot:XYZ"),
    *("PauliRot:II", "GlobalPhase", "QubitUnitary", "StatePrep", "BasisState", "Identity", "Toffoli"),
    *("SingleExcitation", "DoubleExcitationPlus", "SingleExcitationOdd", "PCPhase", "PSWAP", "Nonsense"),
    *("S", "CSWAP", "PhaseShift@x.py:1", "CRot", "IsingXY", "RX:XX"),
)
SHAPES = {
    "RX": (1, 1), "RY": (1, 1), "RZ": (1, 1), "Rot": (3, 1), "CNOT": (0, 2), "CRX": (1, 2),
    "Hadamard": (0, 1), "PauliX": (0, 1), "IsingXX": (1, 2), "MultiRZ": (1, 2), "PauliRot:XYZ": (1, 3),
    "PauliRot:II": (1, 2), "GlobalPhase": (1, 0), "QubitUnitary": (8, 1), "StatePrep": (4, 1),
    "BasisState": (2, 2), "Identity": (0, 1), "Toffoli": (0, 3), "SingleExcitation": (1, 2),
    "DoubleExcitationPlus": (1, 4), "S": (0, 1), "CSWAP": (0, 3), "CRot": (3, 2), "IsingXY": (1, 2),
    "PSWAP": (1, 2), "PhaseShift@x.py:1": (1, 1), "PCPhase": (2, 2),
}  # fmt: skip
EXTREMES = (
    *(-1, -2, -3, 0, 1, 2, 3, 4, 7, 8, 31, 32, 33, 63, 64, 65, 255, 1023, 2**30, 2**30 + 1, 2**31 - 1),
    *(-(2**31), 2**31, 2**32, 2**40, 2**61, 2**62, 2**63 - 1, -(2**63), 5 * 2**34 - 1, -5 * 2**34),
)
NUMBERS = (0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 1e300, math.nan, math.inf, -math.inf, 2.0**40, 2.0**70, 0.25)
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
            observable = draw.choice((
                [3, wires[0]], [4, wires[0]], [6, 2, 1, wires[0], 3, (wires[0] + 1) % qubits],
                [7, 2, 0, 1, wires[0], 3, wires[0]], [5, 1, wires[0], 0],
                [6, 1, 6, 1, 3, wires[0]], [7, 1, 0, 7, 1, 1, 2, wires[0]],
            ))  # fmt: skip
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


def handle_type():
    return "ui32", (2,)


class Circuit:
    """One drawn circuit: calls in order, each with a place where it may be mutated.

    Args:
        machine: which calls the handlers.
        seed: of the circuit and of its mutations.
        device: library, factory and options of the plugin.
    """

    def __init__(self, machine: Machine, seed: int, device) -> None:
        self.machine, self.draw, self.device = machine, Random(seed), device
        self.states = []
        # Some circuits are as they should be, so that later calls are reached.
        self.how_much = self.draw.choice((0.0, 0.05, 0.15, 0.4))
        self.handle = np.zeros(2, np.uint32)

    def integer(self, value, most=None):
        """Return a value or a hostile one; beyond ``most`` only what is an error at once.

        A large one may be right as such, and take an hour or all memory, which a file may.
        """
        if self.draw.random() >= self.how_much:
            return value
        found = self.draw.integer()
        return found if most is None or found <= most or found >= 2**61 else most

    def listing(self, values):
        return self.draw.listing(values) if self.draw.random() < self.how_much else list(values)

    def buffer(self, element, shape, fill=None):
        if self.draw.random() < self.how_much:
            shape = self.draw.shape(shape)
        count = math.prod(shape)
        if element == "f64":
            values = [self.draw.choice(NUMBERS) if self.draw.random() < self.how_much else
                      self.draw.choice((0.0, 1.0, 0.4)) for _ in range(min(count, 64))]  # fmt: skip
        else:
            values = [self.integer(fill or 0) for _ in range(min(count, 64))]
        dtype = {"f64": np.float64, "i32": np.int32, "ui32": np.uint32, "i1": np.uint8}[element]
        with np.errstate(all="ignore"):
            data = np.array([v if element == "f64" else v % 2**32 for v in values], np.float64 if
                            element == "f64" else np.uint64).astype(dtype)  # fmt: skip
        return element, shape, data.tobytes()

    def result(self, element, shape):
        return element, self.draw.shape(shape) if self.draw.random() < self.how_much else shape

    def call(self, name, operands, results, attributes=None, *, prepared=False):
        """Make one call; return its results, or None where it is an error."""
        target = f"bellhop_circuit_{name}"
        state = None
        if prepared:
            error, _, state = self.machine.call(target, "instantiate", attributes=attributes)
            if error is not None:
                return None
            self.states.append(state)
        error, found, _ = self.machine.call(target, "execute", operands, results, attributes, state)
        return None if error is not None else found

    def step(self, name, operands=(), results=(), attributes=None, *, state=True, prepared=False):
        """Make a call that takes the circuit's handle, and gives it on if ``state``."""
        handle = self.handle
        if self.draw.random() < self.how_much / 4:
            handle = np.array([self.draw.integer() % 2**32, self.draw.integer() % 2**32], np.uint32)
        results = [handle_type() if state else None, *results]
        found = self.call(
            name, [handle, *operands], [each for each in results if each], attributes, prepared=prepared
        )
        return found is not None

    def begin(self):
        draw = self.draw
        library, factory, kwargs = self.device
        self.qubits = self.integer(draw.randrange(1, 5), 8)
        self.shots = draw.choice((0, 0, 0, 5))
        self.rows = draw.choice((0, 0, 0, 0, 3))
        self.record = draw.choice((0, 1, 2, 3))
        self.attributes = {
            "library": library, "factory": factory, "kwargs": kwargs, "qubits": self.qubits,
            "shots": self.integer(self.shots, 64), "record": self.integer(self.record),
            "tree": self.integer(draw.choice((0, 0, 0, 1, 2, 3, 4, 5))), "seeded": draw.choice((0, 0, 1)),
            "rows": self.integer(self.rows, 64), "engine": draw.choice((0, 1, 1)),
            "precision": self.integer(draw.choice((32, 64, 64))), "name": "circuit", "site": "here:1",
        }  # fmt: skip
        found = self.call(
            "begin", [self.buffer("ui32", (4,), 7)], [handle_type()], self.attributes, prepared=True
        )
        if found is None or not 1 <= self.qubits <= 8:
            return False
        self.handle = found[0].copy()
        return True

    def table(self):
        self.n_dynamic = self.draw.choice((0, 0, 1, 2))
        names, code, constants, params = gates(self.draw, self.qubits, self.n_dynamic)
        count = self.draw.choice((1, 1, 1, 2, 3, 8))
        attributes = {
            "names": names, "code": ("i64", self.listing(code)), "constants": ("f64", constants),
        }  # fmt: skip
        lead = (self.rows,) if self.rows and self.draw.random() < 0.5 else ()
        operands = [
            self.buffer("f64", (*lead, params * count)),
            self.buffer("i32", (*lead, self.n_dynamic * count)),
        ]
        self.columns = params * count
        return attributes, operands, count

    def offset(self):
        return self.integer(self.draw.choice((0, 0, -1, -2, 1, 2**30)))

    def gates(self):
        attributes, (params, wires), count = self.table()
        times = self.integer(count, 8 if self.columns == 0 else None)
        given = ("i32", (), np.int32(_as32(min(times, 2**31 - 1))).tobytes())
        more = [given] if count != 1 or self.draw.random() < 0.3 else []
        offset = ("i32", (), np.int32(_as32(self.offset())).tobytes())
        return self.step("gates", [params, offset, wires, *more], [], attributes, prepared=True)

    def measure(self):
        code, results = measurements(self.draw, self.qubits, self.shots)
        jacobian = self.integer(self.draw.choice((0, 0, 1, 2, 3)))
        attributes = {"code": ("i64", self.listing(code)), "jacobian": jacobian}
        rows = (self.rows,) if self.rows else ()
        results = [self.result(element, (*rows, *shape)) for element, shape in results]
        columns = getattr(self, "columns", 2)
        values = len(results)
        if jacobian == 1:
            results.append(self.result("f64", (*rows, values, columns)))
        elif jacobian in (2, 3):
            shape = (columns,) if jacobian == 2 else (2 * values, columns)
            results = [self.result("f64", (*rows, *shape))]
        operands = [self.buffer("f64", (16,))]
        if jacobian in (2, 3) or self.draw.random() < self.how_much:
            operands.append(self.buffer("f64", (values if jacobian == 2 else columns,)))
        return self.step("measure", operands, results, attributes, prepared=True)

    def mid_measure(self):
        attributes = {"postselect": self.integer(-1), "reset": self.integer(0), "site": "here:2"}
        wire = ("i32", (), np.int32(_as32(self.integer(0))).tobytes())
        return self.step("mid_measure", [wire], [("i1", ())], attributes)

    def restart(self):
        return self.step("restart", [], [("i1", ()), ("i1", ())], {})

    def derivative(self):
        draw, columns = self.draw, getattr(self, "columns", 2)
        code = draw.choice(([0, 3, 0], [0, 3, 0, 1, 3, 0], [2, 1, 0]))
        sizes, squares = {3: ([1], [-1]), 6: ([1, 1], [-1, 0])}.get(len(code), ([1], [-1]))
        if code[0] == 2:
            sizes = [2]
        order, directions = draw.choice((0, 1, 1, 2)), draw.choice((0, 0, 1))
        attributes = {
            "code": ("i64", self.listing(code)), "sizes": ("i64", self.listing(sizes)),
            "squares": ("i64", self.listing(squares)), "ends": ("i64", self.listing([2])),
            "coefficients": ("f64", [0.5, -0.5]), "amounts": ("f64", [1.5, -1.5]),
            "order": self.integer(order, 3), "adjoint": draw.choice((0, 0, 1)), "keep": draw.choice((0, 1)),
        }  # fmt: skip
        rows = draw.choice((1, 1, 2))
        operands = [
            self.buffer("f64", (16,)), self.buffer("f64", (columns,)), self.buffer("i32", (columns,), 0),
            self.buffer("f64", (0, columns)), ("i32", (), np.int32(_as32(self.integer(-1))).tobytes()),
            self.buffer("f64", (rows, directions)),
        ]  # fmt: skip
        size = rows * sum(sizes) * columns**order
        results = [("i32", ()), self.result("f64", (min(size, 4096),))]
        return self.step("derivative", operands, results, attributes, prepared=True)

    def dynamic_count(self):
        draw = self.draw
        number = ("i32", (), np.int32(_as32(self.integer(2**30))).tobytes())
        which = ("i32", (), np.int32(_as32(self.integer(0))).tobytes())
        rows, n = draw.choice((0, 1, 2)), draw.choice((0, 1, 3))
        bits = {"bits": self.integer(draw.choice((24, 53)))}
        return draw.choice((
            lambda: self.step("jvp", [self.buffer("f64", (rows,)), which],
                              [self.result("f64", (rows, n))], {}, state=False),
            lambda: self.step("vjp", [self.buffer("f64", (rows, n)), which],
                              [self.result("f64", (rows,))], bits, state=False),
            lambda: self.step("cotangents", [self.buffer("f64", (rows,)), number],
                              [self.result("f64", (rows, n))], {}, state=False),
            lambda: self.step("direction", [self.buffer("f64", (rows,)), self.buffer("f64", (rows, n)),
                                            number], [self.result("f64", (rows,))], bits, state=False),
            lambda: self.step("steps", [], [("i32", ())], {}),
            lambda: self.step("remember", [("i1", ()), number], [], {}),
            lambda: self.step("recall", [number], [("i1", ())], {}, state=False),
            lambda: self.step("score", [], [("i32", ()), self.result("f64", (n,))], {}),
            lambda: self.step("after", [self.buffer("f64", (n,))], [], {}),
        ))()  # fmt: skip

    def whole(self):
        """Run a circuit in one call."""
        self.qubits, self.shots = self.draw.randrange(1, 5), 0
        self.rows = self.draw.choice((0, 0, 3))
        library, factory, kwargs = self.device
        table, operands, _ = self.table()
        code, results = measurements(self.draw, self.qubits, 0)
        attributes = {
            "library": library, "factory": factory, "kwargs": kwargs, "name": "circuit", "site": "here:3",
            "qubits": self.integer(self.qubits, 8), "record": self.integer(self.draw.choice((0, 2, 3))),
            "rows": self.integer(self.rows, 64), "engine": self.draw.choice((0, 1, 1)),
            "precision": self.integer(64), **table, "offset": self.offset(),
            "measurements": ("i64", self.listing(code)),
            "jacobian": self.integer(self.draw.choice((0, 1, 2, 3))),
        }  # fmt: skip
        rows = (self.rows,) if self.rows else ()
        results = [self.result(element, (*rows, *shape)) for element, shape in results]
        values = len(results)
        if attributes["jacobian"] == 1:
            results.append(self.result("f64", (*rows, values, self.columns)))
        elif attributes["jacobian"] in (2, 3):
            results = [self.result("f64", (*rows, self.columns))]
        more = [operands[1]] if self.n_dynamic or self.draw.random() < self.how_much else []
        if attributes["jacobian"] in (2, 3):
            more.append(self.buffer("f64", (values,)))
        self.call("run", [operands[0], self.buffer("f64", (16,)), *more], results, attributes, prepared=True)

    def run(self):
        """Make all calls; return how many there were."""
        self.machine.run_id += 1
        calls = 1
        try:
            if self.draw.random() < 0.25:
                self.whole()
            elif self.begin():
                kinds = (self.gates, self.gates, self.gates, self.measure, self.measure, self.mid_measure,
                         self.restart, self.derivative, self.dynamic_count)  # fmt: skip
                for _ in range(self.draw.randrange(1, 9)):
                    calls += 1
                    if not self.draw.choice(kinds)():
                        break
                else:
                    if self.draw.random() < 0.8:
                        calls += 1
                        self.step("end", [], [], {}, state=False)
        finally:
            # As XLA frees an executable: whatever it left open ends.
            for state in reversed(self.states):
                self.machine.free(state)
        return calls


def _as32(value):
    return (value + 2**31) % 2**32 - 2**31
