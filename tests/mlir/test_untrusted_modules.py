"""The text of a module that somebody else wrote is read before MLIR believes it."""

import pytest

from bellhop_mlir.errors import VerificationError
from bellhop_mlir.module_validation import parse_untrusted


def nested(depth):
    return "[" * depth + "]" * depth


MODULES = {
    "brackets": (f"module attributes {{a.b = {nested(100_000)}}} {{}}", "brackets are nested"),
    "digits": (
        f"module attributes {{a.b = {'7' * 100_000} : i64}} {{}}",
        "the module has a number of more than 80 digits",
    ),
    "aliases": (
        "#a = [1]\nmodule attributes {a.b = #a} {}",
        "the module defines the alias #a =, which is not supported",
    ),
    "recursion": (
        "func.func @main() { call @main() : () -> () return }",
        "the function @main is recursive",
    ),
    "calls in calls": (
        "\n".join(f"func.func @f{i}() {{ call @f{i + 1}() : () -> () return }}" for i in range(401))
        + "func.func @f401() { return }",
        "the module's calls are nested 401 deep, expected at most 400",
    ),
    "doubling": (
        "\n".join(
            f"func.func @f{i}() {{ {f'call @f{i + 1}() : () -> () ' * 2} return }}"
            for i in range(40)
        )
        + "func.func @f40() { return }",
        "inlining all calls of @f\\d+ gives \\d+ operations",
    ),
    "waiting": (
        "func.func @main(%t: !stablehlo.token) { "
        '%0 = "stablehlo.recv"(%t) {channel_handle = #stablehlo.channel_handle<handle = 0, type = '
        "3>, is_host_transfer = true} : (!stablehlo.token) -> !stablehlo.token return }",
        "an operation stablehlo.recv, which",
    ),
    "size": (
        "func.func @main() { %0 = stablehlo.iota dim = 0 : tensor<1000000000000000000xf64> "
        "return }",
        "expected at most \\d+ elements",
    ),
    "dynamic": (
        "func.func @main(%x: tensor<?xf64>) { return }",
        "a value of type tensor<.xf64>, .* array of static shape",
    ),
    "regions": ("module { module @a attributes {} {} }", "an operation builtin.module"),
    "bodies": ("func.func private @main()", "the function @main has no body"),
    "attributes": (
        '"callback.call"() {callee = @f, kind = array<ui32>} : () -> ()',
        "the text is not an MLIR module:",
    ),
    "kinds": (
        '"callback.func"() {sym_name = "f", function_type = () -> (), python = "f", site = "f", '
        "id = 0 : i64} : () -> ()\nfunc.func @main() { "
        '%0 = "callback.call"() {callee = @f, kind = "start"} : () -> tensor<2xui32> return }',
        "the kinds of saved programs are pure",
    ),
    "region calls": (
        '"callback.func"() {sym_name = "f", function_type = () -> (), python = "f", site = "f", '
        "id = 0 : i64, module = @m} : () -> ()",
        "has a module, which saved programs",
    ),
    "overflow": (
        "func.func @main(%x: tensor<3x3xf64>) { "
        "%0:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%x) {mhlo.backend_config = {}} "
        ": (tensor<3x3xf64>) -> (tensor<1x1xf64>, tensor<3xf64>, tensor<i32>) return }",
        "calls lapack_dsyevd_ffi with wrong types",
    ),
}


@pytest.mark.parametrize(("text", "message"), MODULES.values(), ids=MODULES)
def test_a_module_is_read_before_it_is_believed(text, message):
    with pytest.raises(VerificationError, match=message):
        parse_untrusted(text)


def sort(body, element="f64"):
    return (
        f"func.func @main(%x: tensor<9x{element}>) {{ "
        '%0 = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({ '
        f"^bb0(%a: tensor<{element}>, %b: tensor<{element}>): {body} }}) "
        f": (tensor<9x{element}>) -> tensor<9x{element}> return }}"
    )


def compare(direction, kind, left="%a", right="%b", element="f64", name="%r"):
    types = f"(tensor<{element}>, tensor<{element}>) -> tensor<i1>"
    return f"{name} = stablehlo.compare {direction}, {left}, {right}, {kind} : {types} "


RETURN = "stablehlo.return %r : tensor<i1>"
COMPARATORS = {
    "always": "%r = stablehlo.constant dense<true> : tensor<i1> " + RETURN,
    "not strict": compare("LE", "TOTALORDER") + RETURN,
    "one element": compare("LT", "TOTALORDER", "%a", "%a") + RETURN,
    "NaN": compare("LT", "FLOAT") + RETURN,
    "other keys": "%n = stablehlo.negate %b : tensor<f64> "
    + compare("LT", "TOTALORDER", "%a", "%n")
    + RETURN,
    "a mix of both": "%n = stablehlo.select %t, %a, %b : tensor<i1>, tensor<f64> "
    + compare("LT", "TOTALORDER", "%n", "%b")
    + RETURN,
    "negated": compare("LT", "TOTALORDER", name="%q")
    + "%r = stablehlo.not %q : tensor<i1> "
    + RETURN,
    "either": compare("LT", "TOTALORDER", name="%p")
    + compare("GT", "TOTALORDER", name="%q")
    + "%r = stablehlo.or %p, %q : tensor<i1> "
    + RETURN,
}


@pytest.mark.parametrize("body", COMPARATORS.values(), ids=COMPARATORS)
def test_a_comparator_is_an_order(body):
    if "%t" in body:
        body = "%t = stablehlo.constant dense<true> : tensor<i1> " + body
    with pytest.raises(VerificationError, match="a comparator that is not an order"):
        parse_untrusted(sort(body))


def test_an_order_is_taken():
    parse_untrusted(sort(compare("LT", "TOTALORDER") + RETURN))
    parse_untrusted(sort(compare("GT", "SIGNED", element="i32") + RETURN, "i32"))


OUTSIDE = {
    "dynamic size": (
        "%s = stablehlo.constant dense<90> : tensor<i32> "
        "%0 = stablehlo.set_dimension_size %x, %s, dim = 0 : (tensor<4xf64>, tensor<i32>) -> "
        "tensor<4xf64>",
        "an operation stablehlo.set_dimension_size",
    ),
    "elements": (
        "%0 = stablehlo.convert %x : (tensor<4xf64>) -> tensor<4xf6E2M3FN>",
        "whose element type is not supported",
    ),
    "attribute": (
        '%0 = stablehlo.abs %x {mhlo.frontend_attributes = {_xla_compute_type = "host"}} : '
        "tensor<4xf64>",
        "the module's stablehlo.abs has an attribute 'mhlo.frontend_attributes'",
    ),
    "device": ("%0 = stablehlo.partition_id : tensor<ui32>", "an operation stablehlo.partition_id"),
    "kernel": (
        "%0:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%m) {mhlo.backend_config = "
        "{uplo = 90 : ui8}} : (tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<i32>)",
        "lapack_dpotrf_ffi with uplo = 90",
    ),
    "padding": (
        "%c = stablehlo.constant dense<0.0> : tensor<f64> %s = stablehlo.constant dense<0.0> : "
        "tensor<9xf64> "
        '%0 = "stablehlo.select_and_scatter"(%x, %s, %c) <{padding = dense<[[9, 0]]> : '
        "tensor<1x2xi64>, window_dimensions = array<i64: 5>, window_strides = array<i64: 1>}> ({ "
        "^bb0(%a: tensor<f64>, %b: tensor<f64>): "
        + compare("GE", "FLOAT")
        + RETURN
        + " }, { ^bb0(%a: tensor<f64>, %b: tensor<f64>): %r = stablehlo.add %a, %b : tensor<f64> "
        "stablehlo.return %r : tensor<f64> }) : (tensor<4xf64>, tensor<9xf64>, tensor<f64>) -> "
        "tensor<4xf64>",
        "windows that contain padding only",
    ),
    "composite": (
        '%0 = stablehlo.composite "chlo.top_k" %x {decomposition = @f} : (tensor<4xf64>) -> '
        "tensor<4xf64>",
        "the module has a composite chlo.top_k",
    ),
}


@pytest.mark.parametrize(("operation", "message"), OUTSIDE.values(), ids=OUTSIDE)
def test_what_jax_does_not_emit(operation, message):
    text = f"func.func @main(%x: tensor<4xf64>, %m: tensor<2x2xf64>) {{ {operation} return }}"
    text += "func.func private @f(%x: tensor<4xf64>) -> tensor<4xf64> { return %x : tensor<4xf64> }"
    with pytest.raises(VerificationError, match=message):
        parse_untrusted(text)


def test_what_is_said_about_arguments_is_dropped():
    text = (
        "func.func @main(%x: tensor<4xf64> {tf.aliasing_output = 0 : i32, jax.result_info = "
        '"x"}) -> tensor<4xf64> { return %x : tensor<4xf64> }'
    )
    found = str(parse_untrusted(text))
    assert "jax.result_info" in found
    assert "aliasing" not in found
