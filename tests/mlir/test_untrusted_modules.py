"""The text of a module that somebody else wrote is read before MLIR believes it."""

import pytest

from bellhop_mlir.errors import VerificationError
from bellhop_mlir.untrusted import parse_untrusted


def nested(depth):
    return "[" * depth + "]" * depth


MODULES = {
    "brackets": (f"module attributes {{a.b = {nested(100_000)}}} {{}}", "brackets are nested"),
    "digits": (
        f"module attributes {{a.b = {'7' * 100_000} : i64}} {{}}",
        "it has a number of more than 80 digits",
    ),
    "aliases": (
        "#a = [1]\nmodule attributes {a.b = #a} {}",
        "it defines #a =, which programs do not",
    ),
    "recursion": (
        "func.func @main() { call @main() : () -> () return }",
        "@main is called by what it calls",
    ),
    "doubling": (
        "\n".join(
            f"func.func @f{i}() {{ {f'call @f{i + 1}() : () -> () ' * 2} return }}"
            for i in range(40)
        )
        + "func.func @f40() { return }",
        "the calls of @f\\d+ multiply without end",
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
        "which is larger than any memory",
    ),
    "dynamic": (
        "func.func @main(%x: tensor<?xf64>) { return }",
        "a value of type tensor<.xf64>, which is no array",
    ),
    "regions": ("module { module @a attributes {} {} }", "an operation builtin.module"),
    "bodies": ("func.func private @main()", "the function @main has no body"),
    "attributes": (
        '"callback.call"() {callee = @f, kind = array<ui32>} : () -> ()',
        "it is no module of MLIR",
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
        "calls lapack_dsyevd_ffi with other types",
    ),
}


@pytest.mark.parametrize(("text", "message"), MODULES.values(), ids=MODULES)
def test_a_module_is_read_before_it_is_believed(text, message):
    with pytest.raises(VerificationError, match=message):
        parse_untrusted(text)
