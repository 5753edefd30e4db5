// RUN: --pass=canonicalize-regions

// TEST: constants_move_into_the_region

// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%[[X:.+]]: tensor<3xf64>)
// CHECK-NEXT: %[[R:.+]] = "callback.accelerate"(%[[X]]) {callee = @accelerate_cuda_0__f_0, device = "cuda:0"} : (tensor<3xf64>) -> tensor<3xf64>
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @accelerate_cuda_0__f_0(%[[A:.+]]: tensor<3xf64>) -> tensor<3xf64>
// CHECK-NEXT: %[[C:.+]] = stablehlo.constant dense<2.0
// CHECK-NEXT: %[[B:.+]] = stablehlo.broadcast_in_dim %[[C]]
// CHECK-NEXT: stablehlo.multiply %[[A]], %[[B]]
// CHECK-NOT: func.func private @accelerate_cuda_0__f(
func.func public @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %c = stablehlo.constant dense<2.0> : tensor<f64>
  %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f64>) -> tensor<3xf64>
  %y = "callback.accelerate"(%x, %b) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
  return %y : tensor<3xf64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<3xf64>, %w: tensor<3xf64>) -> tensor<3xf64> {
  %y = stablehlo.multiply %x, %w : tensor<3xf64>
  return %y : tensor<3xf64>
}

// -----
// TEST: calls_with_equal_constants_share_a_function

// CHECK-LABEL: func.func public @main
// CHECK: callee = @accelerate_cuda_0__f_0,
// CHECK: callee = @accelerate_cuda_0__f_1,
// CHECK: callee = @accelerate_cuda_0__f_0,
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>, tensor<f64>) {
  %c = stablehlo.constant dense<2.0> : tensor<f64>
  %d = stablehlo.constant dense<3.0> : tensor<f64>
  %e = stablehlo.constant dense<2.0> : tensor<f64>
  %a = "callback.accelerate"(%x, %c) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>, tensor<f64>) -> tensor<f64>
  %b = "callback.accelerate"(%a, %d) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>, tensor<f64>) -> tensor<f64>
  %y = "callback.accelerate"(%b, %e) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>, tensor<f64>) -> tensor<f64>
  return %a, %b, %y : tensor<f64>, tensor<f64>, tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>, %w: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.multiply %x, %w : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: equal_operands_are_handed_over_once

// CHECK: "callback.accelerate"(%{{.+}}, %{{.+}}) {{.*}} : (tensor<f64>, tensor<f64>) -> tensor<f64>
// CHECK: func.func private @accelerate_cuda_0__f_0(%[[A:.+]]: tensor<f64>, %[[B:.+]]: tensor<f64>)
// CHECK-NEXT: stablehlo.clamp %[[A]], %[[B]], %[[A]]
func.func public @main(%x: tensor<f64>, %y: tensor<f64>) -> tensor<f64> {
  %r = "callback.accelerate"(%x, %y, %x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>, tensor<f64>, tensor<f64>) -> tensor<f64>
  return %r : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>, %y: tensor<f64>, %z: tensor<f64>) -> tensor<f64> {
  %r = stablehlo.clamp %x, %y, %z : tensor<f64>
  return %r : tensor<f64>
}

// -----
// TEST: results_that_nothing_uses_are_not_fetched

// CHECK: %[[R:.+]] = "callback.accelerate"(%{{.+}}) {{.*}} : (tensor<f64>) -> tensor<f64>
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @accelerate_cuda_0__f_0(%{{.+}}: tensor<f64>) -> tensor<f64>
// CHECK: %[[C:.+]] = stablehlo.cosine
// CHECK-NEXT: return %[[C]] : tensor<f64>
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %r:2 = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> (tensor<f64>, tensor<f64>)
  return %r#1 : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %s = stablehlo.sine %x : tensor<f64>
  %c = stablehlo.cosine %x : tensor<f64>
  return %s, %c : tensor<f64>, tensor<f64>
}

// -----
// TEST: region_without_constants_stays_as_it_is

// CHECK: "callback.accelerate"(%{{.+}}) {callee = @accelerate_cuda_0__f, device = "cuda:0"}
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %r = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %r : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %s = stablehlo.sine %x : tensor<f64>
  return %s : tensor<f64>
}

// -----
// TEST: a_token_is_returned_though_nothing_takes_it

"callback.func"() {sym_name = "p", function_type = (tensor<f64>) -> (), python = "p", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK: "callback.accelerate"(%{{.+}}, %{{.+}}) {{.*}} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
// CHECK: func.func private @accelerate_cuda_0__f_0(%{{.+}}: !stablehlo.token, %{{.+}}: tensor<f64>) -> !stablehlo.token
func.func public @main(%x: tensor<f64>) {
  %t = stablehlo.create_token : !stablehlo.token
  %r:2 = "callback.accelerate"(%t, %x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (!stablehlo.token, tensor<f64>) -> (!stablehlo.token, tensor<f64>)
  return
}
func.func private @accelerate_cuda_0__f(%t: !stablehlo.token, %x: tensor<f64>) -> (!stablehlo.token, tensor<f64>) {
  %r = "callback.call"(%t, %x) {callee = @p, kind = "debug"} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
  return %r, %x : !stablehlo.token, tensor<f64>
}
