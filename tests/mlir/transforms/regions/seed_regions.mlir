// RUN: --pass=seed-regions

// TEST: region_splits_the_seed_that_it_is_handed

// CHECK-LABEL: func.func public @main
// CHECK: %[[R:.+]] = "quantum.seed"() {circuit = 4 : i64} : () -> tensor<4xui32>
// CHECK-NEXT: %[[Y:.+]]:2 = "callback.accelerate"(%[[R]]) {callee = @accelerate_cuda_0__f_0, device = "cuda:0"} : (tensor<4xui32>) -> (tensor<4xui32>, tensor<4xui32>)
// CHECK-NEXT: return %[[Y]]#0
func.func public @main() -> tensor<4xui32> {
  %y = "callback.accelerate"() {callee = @accelerate_cuda_0__f, device = "cuda:0"} : () -> tensor<4xui32>
  return %y : tensor<4xui32>
}
// CHECK-LABEL: func.func private @accelerate_cuda_0__f_0
// CHECK-SAME: (%[[S:.+]]: tensor<4xui32>) -> (tensor<4xui32>, tensor<4xui32>)
// CHECK-NEXT: %[[P:.+]] = stablehlo.reshape %[[S]] : (tensor<4xui32>) -> tensor<2x2xui32>
// CHECK-NEXT: %[[K:.+]] = stablehlo.bitcast_convert %[[P]] : (tensor<2x2xui32>) -> tensor<2xui64>
// CHECK-NEXT: %{{.+}}, %[[W:.+]] = stablehlo.rng_bit_generator %[[K]], algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>)
// CHECK-NEXT: %[[N:.+]] = stablehlo.slice %[[W]] [0:4]
// CHECK-NEXT: %[[D:.+]] = stablehlo.slice %[[W]] [4:8]
// CHECK-NEXT: return %[[D]], %[[N]]
func.func private @accelerate_cuda_0__f() -> tensor<4xui32> {
  %s = "quantum.seed"() {circuit = 3 : i64} : () -> tensor<4xui32>
  return %s : tensor<4xui32>
}

// -----
// TEST: loops_carry_it_and_conditionals_return_it

// CHECK-LABEL: func.func public @main
// CHECK: callback.accelerate
func.func public @main(%n: tensor<i32>) -> tensor<4xui32> {
  %y = "callback.accelerate"(%n) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<i32>) -> tensor<4xui32>
  return %y : tensor<4xui32>
}
// CHECK-LABEL: func.func private @accelerate_cuda_0__f_0
// CHECK: stablehlo.while(%{{.+}} = %{{.+}}, %{{.+}} = %{{.+}}, %[[S:.+]] = %{{.+}}) : tensor<i32>, tensor<4xui32>, tensor<4xui32>
// CHECK: stablehlo.return %{{.+}} : tensor<i1>
// CHECK: %[[C:.+]]:2 = "stablehlo.case"
// CHECK: func.call @draw_0(%[[S]]) : (tensor<4xui32>) -> (tensor<4xui32>, tensor<4xui32>)
// CHECK: stablehlo.return %{{.+}}, %[[S]] : tensor<4xui32>, tensor<4xui32>
// CHECK: stablehlo.return %{{.+}}, %[[C]]#0, %[[C]]#1 : tensor<i32>, tensor<4xui32>, tensor<4xui32>
func.func private @accelerate_cuda_0__f(%n: tensor<i32>) -> tensor<4xui32> {
  %c = stablehlo.constant dense<0> : tensor<4xui32>
  %l:2 = stablehlo.while(%i = %n, %v = %c) : tensor<i32>, tensor<4xui32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %w = "stablehlo.case"(%i) ({
      %d = func.call @draw() : () -> tensor<4xui32>
      stablehlo.return %d : tensor<4xui32>
    }, {
      stablehlo.return %v : tensor<4xui32>
    }) : (tensor<i32>) -> tensor<4xui32>
    stablehlo.return %i, %w : tensor<i32>, tensor<4xui32>
  }
  return %l#1 : tensor<4xui32>
}
func.func private @draw() -> tensor<4xui32> {
  %s = "quantum.seed"() {circuit = 0 : i64} : () -> tensor<4xui32>
  return %s : tensor<4xui32>
}

// -----
// TEST: program_itself_draws_as_it_did

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: "quantum.seed"() {circuit = 0 : i64}
// CHECK-NEXT: return
func.func public @main() -> tensor<4xui32> {
  %s = "quantum.seed"() {circuit = 0 : i64} : () -> tensor<4xui32>
  return %s : tensor<4xui32>
}
