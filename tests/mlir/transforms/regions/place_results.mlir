// RUN: --pass=place-results{devices=,cuda:0,cuda:0,cuda:1}

// TEST: results_that_are_asked_for_on_a_device_come_from_there

// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%[[T:.+]]: !stablehlo.token, %[[X:.+]]: tensor<f64>)
// CHECK-NEXT: %[[Y:.+]] = "callback.accelerate"(%[[X]]) {callee = @accelerate_cuda_0__f, device = "cuda:0"}
// CHECK-NEXT: %[[A:.+]] = "callback.accelerate"(%[[X]]) {callee = @accelerate_cuda_0__result, device = "cuda:0"}
// CHECK-NEXT: %[[B:.+]] = "callback.accelerate"(%[[Y]]) {callee = @accelerate_cuda_1__result, device = "cuda:1"}
// CHECK-NEXT: return %[[T]], %[[X]], %[[Y]], %[[A]], %[[B]]
// CHECK: func.func private @accelerate_cuda_0__result(%[[V:.+]]: tensor<f64>) -> tensor<f64> {
// CHECK-NEXT: return %[[V]]
func.func public @main(%t: !stablehlo.token, %x: tensor<f64>) -> (!stablehlo.token, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %t, %x, %y, %x, %y : !stablehlo.token, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}
