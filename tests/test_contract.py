"""The contract between the compiler and the runtime, held against both sides."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import bellhop_runtime
from bellhop_mlir import PIPELINE, run_pipeline
from bellhop_mlir._bindings import ir, make_context
from bellhop_mlir._walk import find_operations
from bellhop_mlir.dialects import quantum

CONTRACT = tomllib.loads((Path(__file__).parents[1] / "runtime/contract.toml").read_text())

# One of each operation that becomes a custom call, and a call of each kind.
EVERY_OPERATION = """
"callback.func"() {sym_name = "f", function_type = (tensor<2xf32>, tensor<i1>) -> tensor<f64>,
                   python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> (),
                   python = "log", site = "f.py:2", id = 1 : i64} : () -> ()
"callback.func"() {sym_name = "seen", function_type = (tensor<2xf32>, tensor<i1>) -> (),
                   python = "seen", site = "f.py:3", id = 2 : i64} : () -> ()
"callback.func"() {sym_name = "c", function_type = (tensor<f64>) -> tensor<f64>,
                   python = "c", site = "f.py:5", id = 4 : i64} : () -> ()
"callback.func"() {sym_name = "loop", function_type = (tensor<i64>, tensor<i64>) -> tensor<i64>,
                   python = "loop", site = "f.py:4", id = 3 : i64} : () -> ()
func.func public @main(%t: !stablehlo.token, %x: tensor<f64>, %v: tensor<2xf32>, %b: tensor<i1>,
                       %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>,
                       %n: tensor<i64>, %i: tensor<1xi32>, %a: tensor<2x1xf64>)
    -> (!stablehlo.token, tensor<f64>, tensor<f64>, tensor<4xcomplex<f64>>, tensor<1x1xf64>,
        tensor<2x1x1xf64>, tensor<f64>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %none = stablehlo.constant dense<> : tensor<0xi32>
  %b0 = "quantum.begin"(%p) {name = "d", site = "f.py:10", library = "l", factory = "F",
      kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64,
      seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64}
      : (tensor<1xf64>) -> tensor<2xui32>
  %b1 = "quantum.gates"(%b0, %p, %zero, %none) {names = "RX",
      code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>}
      : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %b2, %whole = "quantum.measure"(%b1, %p) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64}
      : (tensor<2xui32>, tensor<1xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%b2) : (tensor<2xui32>) -> ()
  %handle = stablehlo.constant dense<0> : tensor<2xui32>
  "callback.call"(%handle, %whole) {callee = @f, kind = "release"}
      : (tensor<2xui32>, tensor<f64>) -> ()
  %y = "callback.call"(%v, %b) {callee = @f, kind = "pure"}
      : (tensor<2xf32>, tensor<i1>) -> tensor<f64>
  "callback.call"(%x) {callee = @log, kind = "io"} : (tensor<f64>) -> ()
  %native = "callback.call"(%x) {callee = @c, kind = "native_io"} : (tensor<f64>) -> tensor<f64>
  %t1 = "callback.call"(%t, %x) {callee = @log, kind = "debug"}
      : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
  %t2 = "callback.call"(%t1, %v, %b) {callee = @seen, kind = "tap"}
      : (!stablehlo.token, tensor<2xf32>, tensor<i1>) -> !stablehlo.token
  %t3, %next = "callback.call"(%t2, %n, %n, %x) {callee = @loop, kind = "progress"}
      : (!stablehlo.token, tensor<i64>, tensor<i64>, tensor<f64>) -> (!stablehlo.token, tensor<i64>)
  %z = func.call @accelerate_cuda_0__far(%whole) : (tensor<f64>) -> tensor<f64>
  %r = "quantum.seed"() {circuit = 0 : i64} : () -> tensor<4xui32>
  %s0 = "quantum.begin"(%r, %x, %p) {name = "c", site = "f.py:9", library = "l", factory = "F",
      kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 1 : i64, tree = 0 : i64,
      seeded = 1 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64}
      : (tensor<4xui32>, tensor<f64>, tensor<1xf64>) -> tensor<2xui32>
  %s1 = "quantum.gates"(%s0, %p, %o, %w) {names = "RX",
      code = array<i64: 0, 0, 1, 1, 1, 0, -1, 1, 1>, constants = array<f64: 0.5>}
      : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %m1, %bit = "quantum.mid_measure"(%s1, %o) {postselect = -1 : i64, reset = 0 : i64,
      site = "f.py:3"} : (tensor<2xui32>, tensor<i32>) -> (tensor<2xui32>, tensor<i1>)
  %m2, %more, %counts = "quantum.restart"(%m1)
      : (tensor<2xui32>) -> (tensor<2xui32>, tensor<i1>, tensor<i1>)
  %s2, %e, %psi, %j = "quantum.measure"(%m2, %p) {code = array<i64: 0, 3, 0, 3>,
      jacobian = 1 : i64} : (tensor<2xui32>, tensor<1xf64>)
      -> (tensor<2xui32>, tensor<f64>, tensor<4xcomplex<f64>>, tensor<1x1xf64>)
  %s3, %kept, %es = "quantum.derivative"(%s2, %p, %p, %i, %a, %o, %a) {code = array<i64: 0, 3, 0>,
      sizes = array<i64: 1>, squares = array<i64: -1>, ends = array<i64: 1>,
      coefficients = array<f64: 1.0>, amounts = array<f64: 1.0>, order = 1 : i64,
      adjoint = 0 : i64, keep = 0 : i64}
      : (tensor<2xui32>, tensor<1xf64>, tensor<1xf64>, tensor<1xi32>, tensor<2x1xf64>,
      tensor<i32>, tensor<2x1xf64>) -> (tensor<2xui32>, tensor<i32>, tensor<2x1x1xf64>)
  %s8, %score_kept, %score = "quantum.score"(%s3)
    : (tensor<2xui32>) -> (tensor<2xui32>, tensor<i32>, tensor<1xf64>)
  %s9 = "quantum.remember"(%s8, %bit, %o)
      : (tensor<2xui32>, tensor<i1>, tensor<i32>) -> tensor<2xui32>
  %again = "quantum.recall"(%s9, %o) : (tensor<2xui32>, tensor<i32>) -> tensor<i1>
  %k = "quantum.vjp"(%s9, %j, %o) {bits = 53 : i64}
      : (tensor<2xui32>, tensor<1x1xf64>, tensor<i32>) -> tensor<1xf64>
  %ws = "quantum.cotangents"(%s9, %k, %o)
      : (tensor<2xui32>, tensor<1xf64>, tensor<i32>) -> tensor<1x2xf64>
  %s10, %steps = "quantum.steps"(%s9) : (tensor<2xui32>) -> (tensor<2xui32>, tensor<i32>)
  %d = "quantum.direction"(%s10, %k, %j, %o) {bits = 53 : i64}
      : (tensor<2xui32>, tensor<1xf64>, tensor<1x1xf64>, tensor<i32>) -> tensor<1xf64>
  %e_dot = "quantum.jvp"(%s10, %d, %kept)
      : (tensor<2xui32>, tensor<1xf64>, tensor<i32>) -> tensor<1x1xf64>
  %s6 = "quantum.after"(%s10, %ws) : (tensor<2xui32>, tensor<1x2xf64>) -> tensor<2xui32>
  "quantum.end"(%s6) : (tensor<2xui32>) -> ()
  %late = func.call @accelerate_cuda_0__far(%e) : (tensor<f64>) -> tensor<f64>
  %far = stablehlo.add %z, %late : tensor<f64>
  return %t3, %y, %e, %psi, %j, %es, %far : !stablehlo.token, tensor<f64>, tensor<f64>,
      tensor<4xcomplex<f64>>, tensor<1x1xf64>, tensor<2x1x1xf64>, tensor<f64>
}
func.func private @accelerate_cuda_0__far(%x: tensor<f64>) -> tensor<f64> {
  // Long enough to run beside the circuit.
  %all = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f64>) -> tensor<200000xf64>
  %sum = stablehlo.reduce(%all init: %x) applies stablehlo.add across dimensions = [0]
      : (tensor<200000xf64>, tensor<f64>) -> tensor<f64>
  return %sum : tensor<f64>
}
"""


@pytest.fixture(scope="module")
def emitted() -> list[dict[str, Any]]:
    """Every custom call that the pipeline makes of ``EVERY_OPERATION``, in plain Python."""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(EVERY_OPERATION)
        run_pipeline(module, [cls() for cls in PIPELINE])
        return [
            {
                "target": op.attributes["call_target_name"].value,
                "api_version": op.attributes["api_version"].value,
                "has_side_effect": op.attributes["has_side_effect"].value,
                "operands": [str(value.type) for value in op.operands],
                "results": [str(value.type) for value in op.results],
                "attributes": {
                    entry.name: _attribute_type(entry.attr)
                    for entry in op.attributes["backend_config"]
                },
            }
            for op in find_operations(module.operation, "stablehlo.custom_call")
        ]


def _attribute_type(attribute: ir.Attribute) -> str:
    if isinstance(attribute, ir.StringAttr):
        return "string"
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return "array<i64>"
    if isinstance(attribute, ir.DenseF64ArrayAttr):
        return "array<f64>"
    return str(attribute.type)


def _matches(values: list[str], declared: list[str]) -> bool:
    """Tell whether types such as ``tensor<2xui32>`` fit ``name: ui32[2]``, in order."""
    for position, text in enumerate(declared):
        name, _, form = text.partition(": ")
        rest = values[position:]
        if form.endswith(" ..."):
            assert position == len(declared) - 1, "only the last may be of any length"
            return all(_fits(value, form.removesuffix(" ...")) for value in rest)
        is_present = bool(rest) and _fits(rest[0], form)
        if name.endswith("?") and not is_present:
            values = [*values[:position], None, *rest]
        elif not is_present:
            return False
    return len(values) <= len(declared)


def _fits(value: str, form: str) -> bool:
    if form == "any":
        return True
    match = re.fullmatch(r"([\w|]+)\[(.*)\]", form)
    assert match, f"the contract has the type '{form}'"
    dimensions = [part.strip() for part in match[2].split(",") if part.strip()]
    pattern = "".join(
        rf"{dimension}x"
        if dimension.isdigit()
        else r"(\d+x)?"
        if dimension.endswith("?")
        else r"\d+x"
        for dimension in dimensions
    )
    elements = match[1].replace("c128", "complex<f64>").replace("c64", "complex<f32>")
    return re.fullmatch(rf"tensor<{pattern}({elements})>", value) is not None


def test_runtime_registers_exactly_the_targets_of_the_contract() -> None:
    assert set(bellhop_runtime.TARGETS) == set(CONTRACT)


def test_compiler_emits_exactly_the_targets_of_the_contract(
    emitted: list[dict[str, Any]],
) -> None:
    assert {call["target"] for call in emitted} == set(CONTRACT)


def test_every_operation_of_the_quantum_dialect_is_tried() -> None:
    fused = {"quantum.gates", "quantum.run"}
    assert all(f'"{name}"' in EVERY_OPERATION for name in set(quantum.OPERATIONS) - fused)


@pytest.mark.parametrize("target", CONTRACT)
def test_custom_calls_are_as_the_contract_says(target: str, emitted: list[dict[str, Any]]) -> None:
    declared = CONTRACT[target]
    calls = [call for call in emitted if call["target"] == target]
    assert calls
    for call in calls:
        assert call["attributes"] == declared["attributes"]
        assert _matches(call["operands"], declared["operands"]), call["operands"]
        assert _matches(call["results"], declared["results"]), call["results"]
        assert call["api_version"] == 4


def test_all_but_pure_callbacks_have_a_side_effect(emitted: list[dict[str, Any]]) -> None:
    pure = [call for call in emitted if not call["has_side_effect"]]
    # The call of @f, beside which the regions run.
    assert [call["target"] for call in pure] == ["bellhop_callback"]


@pytest.mark.parametrize(
    ("values", "declared", "expected"),
    [
        (["tensor<2xui32>"], ["state: ui32[2]"], True),
        (["tensor<3xui32>"], ["state: ui32[2]"], False),
        (["tensor<ui32>"], ["state: ui32[2]"], False),
        ([], ["state: ui32[2]"], False),
        (["tensor<2xui32>", "tensor<f64>"], ["state: ui32[2]"], False),
        (["tensor<i32>"], ["offset: i32[]"], True),
        (["tensor<2xui32>"], ["state: ui32[2]", "iterations?: i32[]"], True),
        (["tensor<2xui32>", "tensor<i32>"], ["state: ui32[2]", "iterations?: i32[]"], True),
        (["tensor<2xui32>", "tensor<f64>"], ["state: ui32[2]", "iterations?: i32[]"], False),
        (["tensor<7xf64>"], ["params: f64[n]"], True),
        (["tensor<7xf32>"], ["params: f64[n]"], False),
        (["tensor<7xf64>"], ["params: f64[rows?, n]"], True),
        (["tensor<3x7xf64>"], ["params: f64[rows?, n]"], True),
        (["tensor<2x3x7xf64>"], ["params: f64[rows?, n]"], False),
        (["tensor<7x2xf64>"], ["jacobian: f64[expvals, parameters]"], True),
        (["tensor<2xui32>"], ["state: ui32[2]", "value: any ..."], True),
        (["tensor<2xui32>", "f", "g"], ["state: ui32[2]", "value: any ..."], True),
    ],
)
def test_types_are_compared(values: list[str], declared: list[str], expected: bool) -> None:
    assert _matches(values, declared) is expected
