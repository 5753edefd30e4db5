// RUN: --pass=delegate-callbacks

// TEST: calls_become_calls_of_marked_functions

// CHECK-NOT: callback.func
// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[Y:.+]] = call @f_delegate(%[[X:.+]]) : (tensor<f64>) -> tensor<f64>
// CHECK-NEXT: %[[Z:.+]] = call @f_delegate(%[[Y]]) : (tensor<f64>) -> tensor<f64>
// CHECK-NEXT: %[[U:.+]] = call @log_delegate_0(%{{.+}}, %[[Z]]) : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
// CHECK-NEXT: call @log_delegate_1(%[[Z]]) : (tensor<f64>) -> ()
// CHECK: func.func private @f_delegate(tensor<f64>) -> tensor<f64> attributes {bellhop.callback = 3 : i64, bellhop.kind = "pure"}
// CHECK: func.func private @log_delegate_0(!stablehlo.token, tensor<f64>) -> !stablehlo.token attributes {bellhop.callback = 5 : i64, bellhop.kind = "debug"}
// CHECK: func.func private @log_delegate_1(tensor<f64>) attributes {bellhop.callback = 5 : i64, bellhop.kind = "io"}
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 3 : i64} : () -> ()
"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> (), python = "log", site = "f.py:1", id = 5 : i64} : () -> ()
func.func public @main(%t: !stablehlo.token, %x: tensor<f64>) -> !stablehlo.token {
  %y = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %z = "callback.call"(%y) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %u = "callback.call"(%t, %z) {callee = @log, kind = "debug"} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
  "callback.call"(%z) {callee = @log, kind = "io"} : (tensor<f64>) -> ()
  return %u : !stablehlo.token
}
// The name is taken.
func.func private @log_delegate(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----
// TEST: nothing_to_do

// CHECK: stablehlo.sine
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: progress_is_not_shown_elsewhere
// REFUSED

// CHECK: bellhop-opt: the progress bar of the loop at f.py:7 is supported on the CPU only
"callback.func"() {sym_name = "f", function_type = (tensor<i64>, tensor<i64>) -> tensor<i64>, python = "f", site = "f.py:7", id = 3 : i64} : () -> ()
func.func public @main(%t: !stablehlo.token, %i: tensor<i64>) -> !stablehlo.token {
  %0, %1 = "callback.call"(%t, %i, %i) {callee = @f, kind = "progress"} : (!stablehlo.token, tensor<i64>, tensor<i64>) -> (!stablehlo.token, tensor<i64>)
  return %0 : !stablehlo.token
}
