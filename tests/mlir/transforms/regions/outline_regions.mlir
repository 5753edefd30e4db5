// RUN: --pass=outline-regions

// TEST: call_of_accelerated_function_becomes_region

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>
  // CHECK-NEXT: %[[Y:.+]] = "callback.accelerate"(%[[X]]) {callee = @accelerate_cuda_3__expm, device = "cuda:3"} : (tensor<f64>) -> tensor<f64>
  // CHECK-NEXT: return %[[Y]]
  %y = func.call @accelerate_cuda_3__expm(%x) : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
// CHECK-LABEL: func.func private @accelerate_cuda_3__expm
func.func private @accelerate_cuda_3__expm(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----
// TEST: pieces_that_jax_made_of_a_function_become_regions_too

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK: %[[Y:.+]]:2 = "callback.accelerate"(%{{.+}}) {callee = @accelerate_cpu_1__f_0, device = "cpu:1"} : (tensor<f64>) -> (tensor<f64>, tensor<f64>)
  // CHECK-NEXT: return %[[Y]]#1
  %y:2 = func.call @accelerate_cpu_1__f_0(%x) : (tensor<f64>) -> (tensor<f64>, tensor<f64>)
  return %y#1 : tensor<f64>
}
func.func private @accelerate_cpu_1__f_0(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  return %x, %x : tensor<f64>, tensor<f64>
}

// -----
// TEST: calls_in_loops_and_in_regions_become_regions

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>, %p: tensor<i1>) -> tensor<f64> {
  // CHECK: stablehlo.if
  // CHECK: "callback.accelerate"(%{{.+}}) {callee = @accelerate_cuda_0__outer, device = "cuda:0"}
  %y = "stablehlo.if"(%p) ({
    %a = func.call @accelerate_cuda_0__outer(%x) : (tensor<f64>) -> tensor<f64>
    stablehlo.return %a : tensor<f64>
  }, {
    stablehlo.return %x : tensor<f64>
  }) : (tensor<i1>) -> tensor<f64>
  return %y : tensor<f64>
}
// CHECK-LABEL: func.func private @accelerate_cuda_0__outer
func.func private @accelerate_cuda_0__outer(%x: tensor<f64>) -> tensor<f64> {
  // CHECK: "callback.accelerate"(%{{.+}}) {callee = @accelerate_cpu_0__inner, device = "cpu:0"}
  %y = func.call @accelerate_cpu_0__inner(%x) : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cpu_0__inner(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----
// TEST: other_calls_stay

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK: call @accelerated
  // CHECK-NEXT: call @not_accelerate_cpu_0__f
  // CHECK-NOT: callback.accelerate
  %y = func.call @accelerated(%x) : (tensor<f64>) -> tensor<f64>
  %z = func.call @not_accelerate_cpu_0__f(%y) : (tensor<f64>) -> tensor<f64>
  return %z : tensor<f64>
}
func.func private @accelerated(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}
func.func private @not_accelerate_cpu_0__f(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}
