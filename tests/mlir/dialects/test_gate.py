"""Runs of gates, as tables and read from them."""

from bellhop_mlir._bindings import ir, make_context
from bellhop_mlir.dialects import quantum
from bellhop_mlir.dialects.gate import Gate, decode_gates, encode_gates
from bellhop_mlir.dialects.printing import print_module as printed

RX = Gate("RX", (0,), (0,))
CNOT = Gate("CNOT", (0, 1))
RZ = Gate("RZ", (0,), (-1,), (0.5,))
ROT = Gate("Rot", (1,), (-1, 0, -2), (2.0, 1.0))
S = Gate("S", (-2,), adjoint=True, control_wires=(3, -1), control_values=(0, 1))
RUN = """
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<2xi32>) {
  return
}
"""


def test_tables_are_those_of_the_contract() -> None:
    assert encode_gates([RX, CNOT]) == {
        "names": "RX\nCNOT",
        "code": [0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 2, 0, 0, 1],
        "constants": [],
    }
    assert encode_gates([S])["code"] == [0, 1, 0, 1, 2, -2, 3, -1, 0, 1]


def test_the_slots_of_an_array_are_one_entry() -> None:
    state = Gate("StatePrep", tuple(range(3)), range(4, 20))
    assert encode_gates([RZ, state])["code"][7:] == [1, 0, -16, 3, 0, 4, 0, 1, 2]


def test_constants_are_renumbered_and_names_kept_once() -> None:
    assert encode_gates([RZ, ROT, Gate("RZ", (0,), (-1,), (0.25,))]) == {
        "names": "RZ\nRot",
        "code": [0, 0, 1, 1, 0, -1, 0, 1, 0, 3, 1, 0, -2, 0, -3, 1, 0, 0, 1, 1, 0, -4, 0],
        "constants": [0.5, 2.0, 1.0, 0.25],
    }


def test_what_was_written_is_read() -> None:
    of_arrays = [
        Gate("QubitUnitary", (0,), range(-1, -9, -1), tuple(map(float, range(8)))),
        Gate("StatePrep", (0, 1), range(2, 10)),
    ]
    gates = [RX, CNOT, RZ, ROT, S, *of_arrays, RX]
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(RUN)
        block = module.body.operations[0].regions[0].blocks[0]
        with ir.InsertionPoint.at_block_begin(block):
            (state,) = quantum.gates(list(block.arguments), **encode_gates(gates))
        assert decode_gates(state.owner) == gates


def test_text_says_the_gates_of_a_table_in_comments() -> None:
    named_line = Gate("RZ@user.py:7", (0,), (-1,), (0.5,))
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(RUN)
        with ir.InsertionPoint.at_block_begin(module.body.operations[0].regions[0].blocks[0]):
            operands = list(module.body.operations[0].regions[0].blocks[0].arguments)
            (state,) = quantum.gates(operands, **encode_gates([ROT, S, named_line]))
            quantum.gates([state, *operands[1:]], **encode_gates([CNOT] * 101))
            broken = quantum.gates([state, *operands[1:]], **encode_gates([CNOT]))[0].owner
            broken.attributes["code"] = ir.DenseI64ArrayAttr.get([7, 0])
        text = printed(module)
        comments = [line.strip() for line in text.splitlines() if line.strip().startswith("//")]
        assert comments[:3] == [
            "// Rot(2, p[0], 1) 1",
            "// adjoint(S) w[1] where 3 is 0 where w[0] is 1",
            "// RZ(0.5) 0 at user.py:7",
        ]
        assert comments[3:] == ["// CNOT 0 1"] * 100 + ["// and more", "// no table of gates"]
        assert str(ir.Module.parse(text)) == str(module)
