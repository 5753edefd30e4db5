// RUN: --verify-only

// TEST: right_operations_are_accepted

// CHECK: callback.func
// CHECK: callback.call
// CHECK: callback.call
// CHECK: callback.accelerate
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> (), python = "log", site = "f.py:1", id = 1 : i64} : () -> ()
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %1 = "callback.call"(%t, %x) {callee = @log, kind = "debug"} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
  %2:2 = "callback.accelerate"(%1, %x) {callee = @r, device = "cuda:0"} : (!stablehlo.token, tensor<f64>) -> (!stablehlo.token, tensor<f64>)
  return
}
func.func private @r(%t: !stablehlo.token, %x: tensor<f64>) -> (!stablehlo.token, tensor<f64>) {
  return %t, %x : !stablehlo.token, tensor<f64>
}

// -----
// TEST: func_without_sym_name
// REFUSED

// CHECK: bellhop-opt: callback.func lacks the attribute 'sym_name'
"callback.func"() {function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()

// -----
// TEST: func_without_function_type
// REFUSED

// CHECK: bellhop-opt: callback.func lacks the attribute 'function_type'
"callback.func"() {sym_name = "f", python = "f", site = "f.py:1", id = 0 : i64} : () -> ()

// -----
// TEST: func_without_python
// REFUSED

// CHECK: bellhop-opt: callback.func lacks the attribute 'python'
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, site = "f.py:1", id = 0 : i64} : () -> ()

// -----
// TEST: func_without_site
// REFUSED

// CHECK: bellhop-opt: callback.func lacks the attribute 'site'
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", id = 0 : i64} : () -> ()

// -----
// TEST: func_without_id
// REFUSED

// CHECK: bellhop-opt: callback.func lacks the attribute 'id'
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1"} : () -> ()

// -----
// TEST: id_of_another_type
// REFUSED

// CHECK: bellhop-opt: the attribute 'id' of callback.func is 0 : i32, but must be of type i64
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i32} : () -> ()

// -----
// TEST: function_type_of_another_type
// REFUSED

// CHECK: bellhop-opt: the attribute 'function_type' of callback.func is f64, but must be of type function type
"callback.func"() {sym_name = "f", function_type = f64, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()

// -----
// TEST: negative_id
// REFUSED

// CHECK: bellhop-opt: callback.func @f has the negative id -1
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = -1 : i64} : () -> ()

// -----
// TEST: id_used_twice
// REFUSED

// CHECK: bellhop-opt: callback.func @g has the same id as @f: 0
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
"callback.func"() {sym_name = "g", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()

// -----
// TEST: call_without_callee
// REFUSED

// CHECK: bellhop-opt: callback.call lacks the attribute 'callee'
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0 = "callback.call"(%x) {kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return
}

// -----
// TEST: call_without_kind
// REFUSED

// CHECK: bellhop-opt: callback.call lacks the attribute 'kind'
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0 = "callback.call"(%x) {callee = @f} : (tensor<f64>) -> tensor<f64>
  return
}

// -----
// TEST: callee_that_is_no_symbol
// REFUSED

// CHECK: bellhop-opt: the attribute 'callee' of callback.call is "f", but must be of type symbol
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0 = "callback.call"(%x) {callee = "f", kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return
}

// -----
// TEST: tap_with_a_result
// REFUSED

// CHECK: bellhop-opt: callback.call of @f has kind 'tap', which is not awaited, but has results
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0, %1 = "callback.call"(%t, %x) {callee = @f, kind = "tap"} : (!stablehlo.token, tensor<f64>) -> (!stablehlo.token, tensor<f64>)
  return
}

// -----
// TEST: progress_with_anchors_is_accepted

// CHECK: callback.call
"callback.func"() {sym_name = "f", function_type = (tensor<i64>, tensor<i64>) -> tensor<i64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%i: tensor<i64>, %x: tensor<f64>, %t: !stablehlo.token) {
  %0, %1 = "callback.call"(%t, %i, %i, %x) {callee = @f, kind = "progress"} : (!stablehlo.token, tensor<i64>, tensor<i64>, tensor<f64>) -> (!stablehlo.token, tensor<i64>)
  return
}

// -----
// TEST: progress_without_a_total
// REFUSED

// CHECK: bellhop-opt: callback.call of @f has type (tensor<i64>) -> tensor<i64>, declared (tensor<i64>, tensor<i64>) -> tensor<i64>
"callback.func"() {sym_name = "f", function_type = (tensor<i64>, tensor<i64>) -> tensor<i64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%i: tensor<i64>, %t: !stablehlo.token) {
  %0, %1 = "callback.call"(%t, %i) {callee = @f, kind = "progress"} : (!stablehlo.token, tensor<i64>) -> (!stablehlo.token, tensor<i64>)
  return
}

// -----
// TEST: unknown_kind
// REFUSED

// CHECK: bellhop-opt: callback.call of @f has kind 'eager'; the kinds are pure, io, debug, native, native_io, tap, progress, start, done
// CHECK-NEXT: bellhop-opt: at loc(
// CHECK-NEXT: bellhop-opt: found before the first pass
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0 = "callback.call"(%x) {callee = @f, kind = "eager"} : (tensor<f64>) -> tensor<f64>
  return
}

// -----
// TEST: call_of_what_is_not_declared
// REFUSED

// CHECK: bellhop-opt: callback.call calls @main, which no callback.func declares
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0 = "callback.call"(%x) {callee = @main, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return
}

// -----
// TEST: pure_call_with_a_token
// REFUSED

// CHECK: bellhop-opt: callback.call of @f is pure, but takes a token
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0:2 = "callback.call"(%t, %x) {callee = @f, kind = "pure"} : (!stablehlo.token, tensor<f64>) -> (!stablehlo.token, tensor<f64>)
  return
}

// -----
// TEST: ordered_call_without_the_next_token
// REFUSED

// CHECK: bellhop-opt: callback.call of @f takes a token, but does not return one as its first result
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0 = "callback.call"(%t, %x) {callee = @f, kind = "debug"} : (!stablehlo.token, tensor<f64>) -> tensor<f64>
  return
}

// -----
// TEST: call_of_another_type
// REFUSED

// CHECK: bellhop-opt: callback.call of @f has type (tensor<f64>) -> tensor<f32>, declared (tensor<f64>) -> tensor<f64>
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f32>
  return
}

// -----
// TEST: call_with_too_few_operands
// REFUSED

// CHECK: bellhop-opt: callback.call of @f has type () -> tensor<f64>, declared (tensor<f64>) -> tensor<f64>
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0 = "callback.call"() {callee = @f, kind = "pure"} : () -> tensor<f64>
  return
}

// -----
// TEST: accelerate_without_callee
// REFUSED

// CHECK: bellhop-opt: callback.accelerate lacks the attribute 'callee'
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0 = "callback.accelerate"(%x) {device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return
}
func.func private @r(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----
// TEST: accelerate_without_device
// REFUSED

// CHECK: bellhop-opt: callback.accelerate lacks the attribute 'device'
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0 = "callback.accelerate"(%x) {callee = @r} : (tensor<f64>) -> tensor<f64>
  return
}
func.func private @r(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----
// TEST: device_without_a_number
// REFUSED

// CHECK: bellhop-opt: callback.accelerate of @r names the device 'cuda', expected platform:index, as in cuda:0
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0 = "callback.accelerate"(%x) {callee = @r, device = "cuda"} : (tensor<f64>) -> tensor<f64>
  return
}
func.func private @r(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----
// TEST: accelerate_of_what_is_not_defined
// REFUSED

// CHECK: bellhop-opt: callback.accelerate calls @q, which is not defined
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0 = "callback.accelerate"(%x) {callee = @q, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return
}
func.func private @r(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----
// TEST: accelerate_of_another_type
// REFUSED

// CHECK: bellhop-opt: callback.accelerate of @r has type (tensor<f64>) -> tensor<f32>, declared (tensor<f64>) -> tensor<f64>
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0 = "callback.accelerate"(%x) {callee = @r, device = "cuda:0"} : (tensor<f64>) -> tensor<f32>
  return
}
func.func private @r(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----
// TEST: accelerate_of_a_function_without_body
// REFUSED

// CHECK: bellhop-opt: callback.accelerate calls @r, whose body is not a single block
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0 = "callback.accelerate"(%x) {callee = @r, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return
}
func.func private @r(tensor<f64>) -> tensor<f64>

// -----
// TEST: recursive_region
// REFUSED

// CHECK: bellhop-opt: callback.accelerate calls @r, which calls itself
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  %0 = "callback.accelerate"(%x) {callee = @r, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return
}
func.func private @r(%x: tensor<f64>) -> tensor<f64> {
  %0 = func.call @r(%x) : (tensor<f64>) -> tensor<f64>
  return %0 : tensor<f64>
}

// -----
// TEST: unknown_operation
// REFUSED

// CHECK: bellhop-opt: unknown operation callback.tap
"callback.tap"() : () -> ()

// -----
// TEST: symbol_of_a_function_used_again
// REFUSED

// CHECK: bellhop-opt:
// CHECK: redefinition of symbol named 'main'
"callback.func"() {sym_name = "main", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>, %t: !stablehlo.token) {
  return
}

// -----
// TEST: symbol_of_a_callback_used_again
// REFUSED

// CHECK: bellhop-opt:
// CHECK: redefinition of symbol named 'f'
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "g", site = "f.py:1", id = 1 : i64} : () -> ()

// -----
// TEST: right_aliases_are_accepted

// CHECK: aliases = array<i64: 0, 1, 1, 0>
"callback.func"() {sym_name = "f", function_type = (tensor<2xf64>, tensor<f64>) -> (tensor<f64>, tensor<2xf64>), python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<2xf64>, %y: tensor<f64>) {
  %0:2 = "callback.call"(%x, %y) {callee = @f, kind = "pure", aliases = array<i64: 0, 1, 1, 0>} : (tensor<2xf64>, tensor<f64>) -> (tensor<f64>, tensor<2xf64>)
  return
}

// -----
// TEST: aliases_that_are_not_pairs
// REFUSED

// CHECK: bellhop-opt: callback.call of @f has the aliases array<i64: 0, 1, 1>, expected pairs of an argument and a result index
"callback.func"() {sym_name = "f", function_type = (tensor<2xf64>, tensor<f64>) -> (tensor<f64>, tensor<2xf64>), python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<2xf64>, %y: tensor<f64>) {
  %0:2 = "callback.call"(%x, %y) {callee = @f, kind = "pure", aliases = array<i64: 0, 1, 1>} : (tensor<2xf64>, tensor<f64>) -> (tensor<f64>, tensor<2xf64>)
  return
}

// -----
// TEST: aliases_of_another_type
// REFUSED

// CHECK: bellhop-opt: callback.call of @f has the aliases {{.*}}, expected pairs of an argument and a result index
"callback.func"() {sym_name = "f", function_type = (tensor<2xf64>, tensor<f64>) -> (tensor<f64>, tensor<2xf64>), python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<2xf64>, %y: tensor<f64>) {
  %0:2 = "callback.call"(%x, %y) {callee = @f, kind = "pure", aliases = [0, 1]} : (tensor<2xf64>, tensor<f64>) -> (tensor<f64>, tensor<2xf64>)
  return
}

// -----
// TEST: alias_of_what_is_no_argument
// REFUSED

// CHECK: bellhop-opt: callback.call of @f has the aliases array<i64: 2, 0>, expected indices of 2 arguments and 2 results, got 2 and 0
"callback.func"() {sym_name = "f", function_type = (tensor<2xf64>, tensor<f64>) -> (tensor<f64>, tensor<2xf64>), python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<2xf64>, %y: tensor<f64>) {
  %0:2 = "callback.call"(%x, %y) {callee = @f, kind = "pure", aliases = array<i64: 2, 0>} : (tensor<2xf64>, tensor<f64>) -> (tensor<f64>, tensor<2xf64>)
  return
}

// -----
// TEST: alias_of_what_is_no_result
// REFUSED

// CHECK: bellhop-opt: callback.call of @f has the aliases array<i64: 0, -1>, expected indices of 2 arguments and 2 results, got 0 and -1
"callback.func"() {sym_name = "f", function_type = (tensor<2xf64>, tensor<f64>) -> (tensor<f64>, tensor<2xf64>), python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<2xf64>, %y: tensor<f64>) {
  %0:2 = "callback.call"(%x, %y) {callee = @f, kind = "pure", aliases = array<i64: 0, -1>} : (tensor<2xf64>, tensor<f64>) -> (tensor<f64>, tensor<2xf64>)
  return
}

// -----
// TEST: alias_of_unlike_types
// REFUSED

// CHECK: bellhop-opt: callback.call of @f has the aliases array<i64: 0, 0>, expected equal types, got tensor<2xf64> for argument 0 and tensor<f64> for result 0
"callback.func"() {sym_name = "f", function_type = (tensor<2xf64>, tensor<f64>) -> (tensor<f64>, tensor<2xf64>), python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<2xf64>, %y: tensor<f64>) {
  %0:2 = "callback.call"(%x, %y) {callee = @f, kind = "pure", aliases = array<i64: 0, 0>} : (tensor<2xf64>, tensor<f64>) -> (tensor<f64>, tensor<2xf64>)
  return
}

// -----
// TEST: alias_of_one_result_twice
// REFUSED

// CHECK: bellhop-opt: callback.call of @f has the aliases array<i64: 0, 1, 0, 1>, expected each argument and result at most once
"callback.func"() {sym_name = "f", function_type = (tensor<2xf64>, tensor<f64>) -> (tensor<f64>, tensor<2xf64>), python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<2xf64>, %y: tensor<f64>) {
  %0:2 = "callback.call"(%x, %y) {callee = @f, kind = "pure", aliases = array<i64: 0, 1, 0, 1>} : (tensor<2xf64>, tensor<f64>) -> (tensor<f64>, tensor<2xf64>)
  return
}
