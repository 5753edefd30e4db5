// RUN: --pass=order-effects

// TEST: two_tokens_are_one_order_through_control_flow

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> (), python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%a: !stablehlo.token, %b: !stablehlo.token, %x: tensor<f64>, %i: tensor<i32>) -> (!stablehlo.token, !stablehlo.token) {
  // CHECK-SAME: %[[A:.+]]: !stablehlo.token, %[[B:.+]]: !stablehlo.token, %[[X:.+]]: tensor<f64>
  // CHECK: %[[CASE:.+]] = "stablehlo.case"
  // CHECK: %[[IN:.+]] = "callback.call"(%[[A]], %[[X]])
  // CHECK: stablehlo.return %[[IN]]
  // CHECK: stablehlo.return %[[A]]
  // CHECK: %[[AFTER:.+]] = "callback.call"(%[[CASE]], %[[X]])
  // CHECK: %[[LOOP:.+]]:2 = stablehlo.while(%[[S:.+]] = %[[AFTER]], %[[T:.+]] = %[[AFTER]])
  // CHECK: do
  // CHECK: %[[ONE:.+]] = "callback.call"(%[[S]], %[[X]])
  // CHECK: %[[TWO:.+]] = "callback.call"(%[[ONE]], %[[X]])
  // CHECK: stablehlo.return %[[TWO]], %[[TWO]]
  // CHECK: %[[OTHER:.+]] = stablehlo.after_all %[[LOOP]]#0, %[[B]]
  // CHECK: return %[[LOOP]]#0, %[[OTHER]]
  %1 = "stablehlo.case"(%i) ({
    %2 = "callback.call"(%a, %x) {callee = @f, kind = "io"} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
    stablehlo.return %2 : !stablehlo.token
  }, {
    stablehlo.return %a : !stablehlo.token
  }) : (tensor<i32>) -> !stablehlo.token
  %3 = "callback.call"(%b, %x) {callee = @f, kind = "debug"} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
  %4:2 = stablehlo.while(%s = %1, %t = %3) : !stablehlo.token, !stablehlo.token
  cond {
    %p = stablehlo.constant dense<false> : tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %5 = "callback.call"(%t, %x) {callee = @f, kind = "debug"} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
    %6 = "callback.call"(%s, %x) {callee = @f, kind = "io"} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
    stablehlo.return %6, %5 : !stablehlo.token, !stablehlo.token
  }
  return %4#0, %4#1 : !stablehlo.token, !stablehlo.token
}

// -----
// TEST: one_token_is_left_alone

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> (), python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%a: !stablehlo.token, %x: tensor<f64>) -> !stablehlo.token {
  // CHECK: "callback.call"(%{{.+}}, %{{.+}})
  %1 = "callback.call"(%a, %x) {callee = @f, kind = "io"} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
  return %1 : !stablehlo.token
}

// -----
// TEST: a_program_makes_its_tokens

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> (), python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) {
  // CHECK: %[[A:.+]] = stablehlo.create_token
  // CHECK: %[[ONE:.+]]:2 = "callback.accelerate"(%[[A]], %[[A]],
  // CHECK: "callback.call"(%[[ONE]]#0,
  // CHECK: return
  %a = stablehlo.create_token : !stablehlo.token
  %b = stablehlo.create_token : !stablehlo.token
  %1:2 = "callback.accelerate"(%a, %b, %x) {callee = @accelerate_cpu_1__f, device = "cpu:1"} : (!stablehlo.token, !stablehlo.token, tensor<f64>) -> (!stablehlo.token, !stablehlo.token)
  %2 = "callback.call"(%1#1, %x) {callee = @f, kind = "debug"} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
  return
}
func.func private @accelerate_cpu_1__f(%a: !stablehlo.token, %b: !stablehlo.token, %x: tensor<f64>) -> (!stablehlo.token, !stablehlo.token) {
  %1 = "callback.call"(%b, %x) {callee = @f, kind = "debug"} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
  return %a, %1 : !stablehlo.token, !stablehlo.token
}
