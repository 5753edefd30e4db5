// RUN: --pass=overlap-calls{ids=0}

// TEST: calls_start_when_their_operands_are_there_and_are_waited_for_at_the_first_use

// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%[[X:.+]]: tensor<f64>)
// CHECK-NEXT: %[[TA:.+]] = "callback.call"(%[[X]]) {callee = @f, kind = "start"} : (tensor<f64>) -> tensor<2xui32>
// CHECK-NEXT: %[[Y:.+]] = stablehlo.sine %[[X]]
// CHECK-NEXT: %[[TC:.+]] = "callback.call"(%[[Y]]) {callee = @f, kind = "start"}
// CHECK-NEXT: %[[A:.+]] = "callback.call"(%[[TA]], %[[TC]]) {callee = @f, kind = "done"} : (tensor<2xui32>, tensor<2xui32>) -> tensor<f64>
// CHECK-NEXT: %[[B:.+]] = stablehlo.negate %[[A]]
// CHECK-NEXT: %[[TD:.+]] = "callback.call"(%[[B]]) {callee = @f, kind = "start"}
// CHECK-NEXT: %[[C:.+]] = "callback.call"(%[[TC]], %[[TD]], %[[A]]) {callee = @f, kind = "done"}
// CHECK-NEXT: %[[D:.+]] = "callback.call"(%[[TD]], %[[C]]) {callee = @f, kind = "done"}
// CHECK-NEXT: %[[E:.+]] = stablehlo.add %[[C]], %[[D]]
// CHECK-NEXT: %[[Z:.+]] = "callback.call"(%[[E]]) {callee = @f, kind = "pure"}
// CHECK-NEXT: return %[[Z]]
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %a = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %b = stablehlo.negate %a : tensor<f64>
  %y = stablehlo.sine %x : tensor<f64>
  %c = "callback.call"(%y) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %d = "callback.call"(%b) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %e = stablehlo.add %c, %d : tensor<f64>
  %z = "callback.call"(%e) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %z : tensor<f64>
}

// -----
// TEST: a_chain_and_calls_for_effect_stay_and_keep_their_order

// CHECK-LABEL: func.func public @main
// CHECK-NOT: kind = "start"
// CHECK: callee = @log, kind = "io"
// CHECK: callee = @f, kind = "pure"
// CHECK: callee = @log, kind = "io"
// CHECK: callee = @f, kind = "pure"
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64} : () -> ()
"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> tensor<f64>, python = "log", site = "a.py:2", id = 1 : i64} : () -> ()
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %a = "callback.call"(%x) {callee = @log, kind = "io"} : (tensor<f64>) -> tensor<f64>
  %b = "callback.call"(%a) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %c = "callback.call"(%b) {callee = @log, kind = "io"} : (tensor<f64>) -> tensor<f64>
  %d = "callback.call"(%c) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %d : tensor<f64>
}

// -----
// TEST: calls_in_functions_and_in_branches_overlap_too

// CHECK-LABEL: func.func public @main
// CHECK: callee = @f, kind = "start"
// CHECK: callee = @f, kind = "start"
// CHECK: callee = @f, kind = "done"
// CHECK: callee = @f, kind = "done"
// CHECK: stablehlo.if
// CHECK: callee = @f, kind = "start"
// CHECK: callee = @f, kind = "start"
// CHECK: callee = @f, kind = "done"
// CHECK: callee = @f, kind = "done"
// CHECK: stablehlo.return
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64} : () -> ()
func.func private @twice(%x: tensor<f64>) -> tensor<f64> {
  %a = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %b = stablehlo.add %a, %a : tensor<f64>
  return %b : tensor<f64>
}
func.func public @main(%x: tensor<f64>, %y: tensor<f64>, %p: tensor<i1>) -> tensor<f64> {
  %a = func.call @twice(%x) : (tensor<f64>) -> tensor<f64>
  %b = func.call @twice(%y) : (tensor<f64>) -> tensor<f64>
  %c = stablehlo.add %a, %b : tensor<f64>
  %d = "stablehlo.if"(%p) ({
    %e = "callback.call"(%c) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
    %g = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
    %h = stablehlo.add %e, %g : tensor<f64>
    stablehlo.return %h : tensor<f64>
  }, {
    stablehlo.return %x : tensor<f64>
  }) : (tensor<i1>) -> tensor<f64>
  return %d : tensor<f64>
}
