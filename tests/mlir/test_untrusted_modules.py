"""The text of a module that somebody else wrote is read before MLIR believes it."""

import pytest

from bellhop_mlir import module_structure
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
        "the module defines the alias #a, which is not supported",
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
        'func.func @f() { "callback.call"() {callee = @f, kind = array<ui32>} : () -> () return }',
        "the text is not an MLIR module that bellhop can read:",
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
    "axes": (
        f"func.func @main(%x: tensor<{'1 x ' * 50_000}f64>) {{ return }}",
        "the module has an array type of 50000 axes, expected 64 at most",
    ),
    "size without entries": (
        "func.func @main(%x: tensor<0x4611686018427387904xf64>) { return }",
        "expected at most",
    ),
    "overflow": (
        "func.func @main(%x: tensor<3x3xf64>) { "
        "%0:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%x) {mhlo.backend_config = {}} "
        ": (tensor<3x3xf64>) -> (tensor<1x1xf64>, tensor<3xf64>, tensor<i32>) return }",
        "calls lapack_dsyevd_ffi with wrong types",
    ),
    "configuration": (
        "func.func @main(%x: tensor<3x3xf64>) { "
        "%0 = stablehlo.custom_call @lapack_dtrsm_ffi(%x, %x) {mhlo.backend_config = {}} "
        ": (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64> return }",
        "a backend configuration whose 'side' is not one of 76, 82",
    ),
}


@pytest.mark.parametrize(("text", "message"), MODULES.values(), ids=MODULES)
def test_a_module_is_read_before_it_is_believed(text, message):
    with pytest.raises(VerificationError, match=message):
        parse_untrusted(text)


# Text of which only a careless check takes a part for a comment, for no alias, or for no nesting.
DEEP = f"module attributes {{a.b = {nested(100_000)}}} {{}}"
CHAIN = " ".join(f"#a{i + 1} = [#a{i}]" for i in range(20_000))
HIDDEN = {
    "carriage return": (f"// \r{DEEP}", r"the control character '\\r'"),
    "form feed": (f'"\f"{DEEP}', r"the control character '\\x0c'"),
    "comment": ("// a\nmodule {}", "the module has the comment // a, which saved"),
    "aliases in one line": (f"func.func @f() {{ return }} #a0 = [] {CHAIN}", "defines the alias"),
    "names of aliases": ("#a-0 = [1]\nmodule attributes {a.b = #a-0} {}", "defines the alias"),
    "affine map": (
        f"module attributes {{a.b = affine_map<(d) -> ({'-' * 100_000}d)>}} {{}}",
        "has 'affine_map', which saved programs do not have",
    ),
    "location": ('module {} loc("a":1:1)', "has 'loc', which saved programs do not have"),
    "brackets that close nothing": (
        f"module attributes {{a.b = {')' * 900}{nested(900)}}} {{}}",
        "brackets are nested",
    ),
    "blank lines": ("\n" * 1_000_000 + DEEP, "brackets are nested"),
    "string without an end": ('"' + '\\"' * 1_000_000, "a string without an end"),
    "strings without an end": ('"\n' * 1_000_000, "a string without an end"),
    "blanks after names": (("#a" + " " * 1000) * 1000 + DEEP, "brackets are nested"),
}


@pytest.mark.parametrize(("text", "message"), HIDDEN.values(), ids=HIDDEN)
def test_the_check_reads_text_as_mlir_does(text, message):
    with pytest.raises(VerificationError, match=message):
        parse_untrusted(text)


SEED = '"quantum.seed"() {circuit = 0 : i64} : () -> tensor<4xui32>'
FUNCTION = '"callback.func"() {sym_name = "f", function_type = () -> (), python = "f", site = "f", '
MAIN = "func.func @main() { return }"
STRUCTURES = {
    "operations outside of functions": (f"{MAIN} %0 = {SEED}", "quantum.seed outside of functions"),
    "cycles outside of functions": (
        f"{MAIN} %0 = stablehlo.add %0, %0 : tensor<f64>",
        "stablehlo.add outside of functions",
    ),
    "several blocks": (
        "func.func @main() { return ^bb1: return }",
        "the module's func.func has an MLIR region of 2 blocks, expected one",
    ),
    "successors": (
        f"func.func @main() {{ {SEED.replace('()', '()[^bb1]', 1)} ^bb1: return }}",
        "the module's func.func has an MLIR region of 2 blocks",
    ),
    "no return": (f"func.func @main() {{ {SEED} }}", "does not end by a return operation"),
    "regions": (
        f"func.func @main() {{ {SEED.replace('()', '() ({ ^bb0: })', 1)} return }}",
        "the module's quantum.seed has an MLIR region, which operations of Bellhop's dialects",
    ),
    "attributes of passes": (
        "module attributes {bellhop.given_results = array<i64: 0>} {}",
        "module has an attribute 'bellhop.given_results'",
    ),
    "attributes of XLA": (
        "module attributes {mhlo.is_dynamic = true} {}",
        "module has an attribute 'mhlo.is_dynamic'",
    ),
    "devices": (
        "module attributes {mhlo.num_partitions = 2 : i32} {}",
        "the module's attribute mhlo.num_partitions is 2 : i32, expected 1",
    ),
    "unknown attributes": (
        f"{MAIN} {FUNCTION} id = 0 : i64, more = 1 : i64}} : () -> ()",
        "callback.func has an attribute 'more'",
    ),
    "optional attributes": (
        f"{MAIN} {FUNCTION} id = 0 : i64, held = 1 : i64}} : () -> ()",
        "'held' of callback.func is 1 : i64, but must be of type array<i64>",
    ),
    "control characters": (
        MAIN + FUNCTION.replace('site = "f"', r'site = "\1B]0;f"') + " id = 0 : i64} : () -> ()",
        "an attribute 'site' with control characters",
    ),
}


@pytest.mark.parametrize(("text", "message"), STRUCTURES.values(), ids=STRUCTURES)
def test_a_module_has_the_structure_of_a_program(text, message):
    with pytest.raises(VerificationError, match=message):
        parse_untrusted(text)


def test_a_module_has_a_limited_number_of_operations(monkeypatch):
    monkeypatch.setattr(module_structure, "_MOST_OPERATIONS", 2)
    with pytest.raises(VerificationError, match="has 3 operations, more than the limit of 2"):
        parse_untrusted(f"func.func @main() {{ {SEED} return }}")


def gates(code, constants="array<f64>", names="RX"):
    return (
        "func.func @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<0xi32>)"
        ' { %0 = "quantum.gates"(%s, %p, %o, %w) {code = array<i64: '
        f'{", ".join(map(str, code))}>, constants = {constants}, names = "{names}"}} : '
        "(tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32> return }"
    )


TABLES = {
    "size of an array": (
        [0, 0, -(2**63), 1, 0, 0, 0],
        "size and offset of a parameter array: expected at most",
    ),
    "place of an array": (
        [0, 0, -2, 1, 0, 2**62, 0],
        "size and offset of a parameter array: expected at most",
    ),
    "constants of an array": (
        [0, 0, -(2**40), 1, 0, -1, 0],
        "index of a constant: there is none, got 1099511627775",
    ),
    "constant": ([0, 0, 1, 1, 0, -1, 0], "index of a constant: there is none, got 0"),
    "parameters": ([0, 0, 2**62, 1, 0, 0, 0], f"expected {2**62} more integers, got 2"),
    "wires": ([0, 0, 1, 2**62, 0, 0, 0], "the number of wires: expected 0 to 3"),
    "name": (
        [-1, 0, 1, 1, 0, 0, 0],
        "the table of gates, integer 1 of the code: index of a name: expected 0 to 0, got -1",
    ),
    "control value": ([0, 0, 1, 1, 1, 0, 0, 1, 2], "a control value: expected 0 or 1"),
}


@pytest.mark.parametrize(("code", "message"), TABLES.values(), ids=TABLES)
def test_a_table_of_gates_keeps_within_its_numbers(code, message):
    with pytest.raises(VerificationError, match=message):
        parse_untrusted(gates(code))


def test_an_array_of_traced_parameters_is_not_counted():
    assert "quantum.gates" in str(parse_untrusted(gates([0, 0, -(2**40), 1, 0, 0, 0])))


def test_a_call_that_stays_in_its_loop_is_taken():
    call = '"callback.call"() {bellhop.stays, callee = @f, kind = "pure"} : () -> ()'
    declaration = FUNCTION + " id = 0 : i64} : () -> ()"
    parse_untrusted(f"{declaration} func.func @main() {{ {call} return }}")


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
    with pytest.raises(VerificationError, match="expected a lexicographic order of keys"):
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
        "accepts only with trust=True",
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
        r"has the padding \[9, 0\] for windows of the sizes \[5\], expected at least 0",
    ),
    "transform": (
        "%c = stablehlo.convert %x : (tensor<4xf64>) -> tensor<4xcomplex<f64>> "
        "%0 = stablehlo.fft %c, type = FFT, length = [-80] : (tensor<4xcomplex<f64>>) -> "
        "tensor<4xcomplex<f64>>",
        r"the module's fft has the lengths \[-80\], expected \[4\]",
    ),
    "inverse transform": (
        "%c = stablehlo.convert %m : (tensor<2x2xf64>) -> tensor<2x2xcomplex<f64>> "
        "%0 = stablehlo.fft %c, type = IFFT, length = [9, 2] : (tensor<2x2xcomplex<f64>>) -> "
        "tensor<2x2xcomplex<f64>>",
        r"the module's fft has the lengths \[9, 2\], expected \[2, 2\]",
    ),
    "composite": (
        '%0 = stablehlo.composite "chlo.top_k" %x {decomposition = @f} : (tensor<4xf64>) -> '
        "tensor<4xf64>",
        "the module has a composite operation chlo.top_k",
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
