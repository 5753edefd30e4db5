"""The driver of passes: its order, its checks, and the time that it takes."""

import time

import pytest

from bellhop_mlir import PIPELINE, run_pipeline
from bellhop_mlir._bindings import ir, make_context
from bellhop_mlir.dialects import quantum
from bellhop_mlir.dialects.gate import Gate, encode_gates
from bellhop_mlir.errors import PassError, VerificationError
from bellhop_mlir.passes import Pass

MAIN = """
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>,
                   python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
"""


class Nothing(Pass):
    """Leave the module as it is."""

    def apply(self, module: ir.Module) -> None:
        del module


class BreakCall(Pass):
    """Give the call a kind that there is not."""

    def apply(self, module: ir.Module) -> None:
        call = _main(module).regions[0].blocks[0].operations[0]
        call.attributes["kind"] = ir.StringAttr.get("eager")


class BreakModule(Pass):
    """Give the function a type that its body does not have."""

    def apply(self, module: ir.Module) -> None:
        none = ir.FunctionType.get([], [])
        _main(module).attributes["function_type"] = ir.TypeAttr.get(none)


class Refuse(Pass):
    """Refuse every module."""

    def apply(self, module: ir.Module) -> None:
        raise PassError("not this one")


def _main(module: ir.Module) -> ir.Operation:
    return next(op.operation for op in module.body.operations if op.operation.name == "func.func")


def test_observer_sees_every_stage_in_order() -> None:
    seen: list[str] = []
    with make_context():
        module = ir.Module.parse(MAIN)
        with ir.Location.unknown():
            run_pipeline(module, [cls() for cls in PIPELINE], lambda name, _: seen.append(name))
    assert seen == [cls.name for cls in PIPELINE]


@pytest.mark.parametrize(
    ("broken", "error", "message"),
    [
        (BreakCall, VerificationError, "callback.call of @f has kind 'eager'"),
        (BreakModule, ir.MLIRError, "Verification failed"),
    ],
)
def test_failed_verification_names_the_pass(
    broken: type, error: type[Exception], message: str
) -> None:
    with make_context():
        module = ir.Module.parse(MAIN)
        with pytest.raises(error, match=message) as raised:
            run_pipeline(module, [Nothing(), broken(), Nothing()])
    assert f"found after the pass {broken.name}" in raised.value.__notes__


def test_module_that_is_wrong_from_the_start_blames_no_pass() -> None:
    with make_context():
        module = ir.Module.parse(MAIN.replace("pure", "eager"))
        with pytest.raises(VerificationError) as raised:
            run_pipeline(module, [Nothing()])
    assert raised.value.__notes__ == ['at loc("-":5:8)', "found before the first pass"]


@pytest.mark.parametrize("needs", [("callback.accelerate",), ("callback.call", "quantum")])
def test_a_pass_does_not_run_where_what_it_needs_is_not(needs: tuple[str, ...]) -> None:
    seen: list[str] = []
    refuse = type("Refuse", (Refuse,), {"needs": needs})
    with make_context():
        run_pipeline(ir.Module.parse(MAIN), [refuse()], lambda name, _: seen.append(name))
        with pytest.raises(PassError, match="not this one"):
            run_pipeline(ir.Module.parse(MAIN), [type("Refuse", (Refuse,), {"needs": needs[:0]})()])
    assert seen == ["refuse"]


def test_refusal_names_the_pass() -> None:
    with make_context():
        module = ir.Module.parse(MAIN)
        with pytest.raises(PassError, match="not this one") as raised:
            run_pipeline(module, [Nothing(), Refuse()])
    assert raised.value.__notes__ == ["raised by the pass refuse"]


def _circuit(gates: int) -> ir.Module:
    module = ir.Module.parse(
        f"""
        func.func public @main(%s: tensor<2xui32>, %p: tensor<{gates}xf64>, %o: tensor<i32>,
                               %w: tensor<0xi32>) -> tensor<2xui32> {{
          return %s : tensor<2xui32>
        }}
        """
    )
    block = _main(module).regions[0].blocks[0]
    state, *others = block.arguments
    with ir.InsertionPoint.at_block_begin(block):
        for index in range(gates):
            # No two gates are equal, as in a real circuit whose parameters differ.
            gate = Gate("RX", (index % 20,), (index,), (0.001 * index,))
            (state,) = quantum.gates([state, *others], **encode_gates([gate]))
    block.operations[len(block.operations) - 1].operation.operands[0] = state
    return module


def _seconds(gates: int) -> float:
    with make_context(), ir.Location.unknown():
        module = _circuit(gates)
        # Of this process: other processes of the machine do not count.
        start = time.process_time()
        run_pipeline(module, [cls() for cls in PIPELINE])
        return time.process_time() - start


def test_pipeline_time_is_linear_in_the_gates() -> None:
    # Quadratic time would be 64 times as much, not 8. A busy machine makes some runs slower, so
    # the fastest of several counts.
    few, many = [], []
    for _ in range(5):
        few += [_seconds(1_000), _seconds(1_000)]
        many.append(_seconds(8_000))
        if min(many) < 24 * min(few):
            return
    assert min(many) < 24 * min(few)
