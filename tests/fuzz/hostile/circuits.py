"""Circuits as calls of handlers, mutated at any place that a module of a file decides."""

import math

import numpy as np
from tests.fuzz.hostile.call_frames import Machine
from tests.fuzz.hostile.draws import NUMBERS, Random, gates, measurements


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
            values = [
                self.draw.choice(NUMBERS)
                if self.draw.random() < self.how_much
                else self.draw.choice((0.0, 1.0, 0.4))
                for _ in range(min(count, 64))
            ]
        else:
            values = [self.integer(fill or 0) for _ in range(min(count, 64))]
        dtype = {"f64": np.float64, "i32": np.int32, "ui32": np.uint32, "i1": np.uint8}[element]
        with np.errstate(all="ignore"):
            data = np.array(
                [v if element == "f64" else v % 2**32 for v in values],
                np.float64 if element == "f64" else np.uint64,
            ).astype(dtype)
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
            name,
            [handle, *operands],
            [each for each in results if each],
            attributes,
            prepared=prepared,
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
            "library": library,
            "factory": factory,
            "kwargs": kwargs,
            "qubits": self.qubits,
            "shots": self.integer(self.shots, 64),
            "record": self.integer(self.record),
            "tree": self.integer(draw.choice((0, 0, 0, 1, 2, 3, 4, 5))),
            "seeded": draw.choice((0, 0, 1)),
            "rows": self.integer(self.rows, 64),
            "engine": draw.choice((0, 1, 1)),
            "precision": self.integer(draw.choice((32, 64, 64))),
            "program": self.integer(0),
            "name": "circuit",
            "site": "here:1",
        }
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
            "names": names,
            "code": ("i64", self.listing(code)),
            "constants": ("f64", constants),
        }
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
        given = ("i32", (), np.int32(_as32(times) if times < 2**31 else -1).tobytes())
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
            "code": ("i64", self.listing(code)),
            "sizes": ("i64", self.listing(sizes)),
            "squares": ("i64", self.listing(squares)),
            "ends": ("i64", self.listing([2])),
            "coefficients": ("f64", [0.5, -0.5]),
            "amounts": ("f64", [1.5, -1.5]),
            "order": self.integer(order, 3),
            "adjoint": draw.choice((0, 0, 1)),
            "keep": draw.choice((0, 1)),
        }
        rows = draw.choice((1, 1, 2))
        operands = [
            self.buffer("f64", (16,)),
            self.buffer("f64", (columns,)),
            self.buffer("i32", (columns,), 0),
            self.buffer("f64", (0, columns)),
            ("i32", (), np.int32(_as32(self.integer(-1))).tobytes()),
            self.buffer("f64", (rows, directions)),
        ]
        size = rows * sum(sizes) * columns**order
        results = [("i32", ()), self.result("f64", (min(size, 4096),))]
        return self.step("derivative", operands, results, attributes, prepared=True)

    def dynamic_count(self):
        draw = self.draw
        number = ("i32", (), np.int32(_as32(self.integer(2**30))).tobytes())
        which = ("i32", (), np.int32(_as32(self.integer(0))).tobytes())
        rows, n = draw.choice((0, 1, 2)), draw.choice((0, 1, 3))
        bits = {"bits": self.integer(draw.choice((24, 53)))}
        return draw.choice(
            (
                lambda: self.step(
                    "jvp",
                    [self.buffer("f64", (rows,)), which],
                    [self.result("f64", (rows, n))],
                    {},
                    state=False,
                ),
                lambda: self.step(
                    "vjp",
                    [self.buffer("f64", (rows, n)), which],
                    [self.result("f64", (rows,))],
                    bits,
                    state=False,
                ),
                lambda: self.step(
                    "cotangents",
                    [self.buffer("f64", (rows,)), number],
                    [self.result("f64", (rows, n))],
                    {},
                    state=False,
                ),
                lambda: self.step(
                    "direction",
                    [self.buffer("f64", (rows,)), self.buffer("f64", (rows, n)), number],
                    [self.result("f64", (rows,))],
                    bits,
                    state=False,
                ),
                lambda: self.step("steps", [], [("i32", ())], {}),
                lambda: self.step("remember", [("i1", ()), number], [], {}),
                lambda: self.step("recall", [number], [("i1", ())], {}, state=False),
                lambda: self.step("score", [], [("i32", ()), self.result("f64", (n,))], {}),
                lambda: self.step("after", [self.buffer("f64", (n,))], [], {}),
            )
        )()

    def whole(self):
        """Run a circuit in one call."""
        self.qubits, self.shots = self.draw.randrange(1, 5), 0
        self.rows = self.draw.choice((0, 0, 3))
        library, factory, kwargs = self.device
        table, operands, _ = self.table()
        code, results = measurements(self.draw, self.qubits, 0)
        attributes = {
            "library": library,
            "factory": factory,
            "kwargs": kwargs,
            "name": "circuit",
            "site": "here:3",
            "qubits": self.integer(self.qubits, 8),
            "record": self.integer(self.draw.choice((0, 2, 3))),
            "rows": self.integer(self.rows, 64),
            "engine": self.draw.choice((0, 1, 1)),
            "precision": self.integer(64),
            "program": self.integer(0),
            **table,
            "offset": self.offset(),
            "measurements": ("i64", self.listing(code)),
            "jacobian": self.integer(self.draw.choice((0, 1, 2, 3))),
        }
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
        self.call(
            "run",
            [operands[0], self.buffer("f64", (16,)), *more],
            results,
            attributes,
            prepared=True,
        )

    def run(self):
        """Make all calls; return how many there were."""
        self.machine.run_id += 1
        calls = 1
        try:
            if self.draw.random() < 0.25:
                self.whole()
            elif self.begin():
                kinds = (
                    self.gates,
                    self.gates,
                    self.gates,
                    self.measure,
                    self.measure,
                    self.mid_measure,
                    self.restart,
                    self.derivative,
                    self.dynamic_count,
                )
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
