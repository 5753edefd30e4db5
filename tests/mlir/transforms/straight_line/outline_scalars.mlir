// RUN: --pass=outline-scalars{size=2}

// TEST: a_chain_becomes_a_row_of_functions

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>
  // CHECK: %[[HIDDEN_X:.+]] = stablehlo.optimization_barrier %[[X]]
  // CHECK-NEXT: %[[A:.+]]:2 = call @main_scalars_1(%[[HIDDEN_X]]) {mhlo.frontend_attributes = {inlineable = "false", xla_cpu_small_call = "true"}}
  // CHECK: %[[HIDDEN_A:.+]] = stablehlo.optimization_barrier %[[A]]#0
  // CHECK-NEXT: %[[B:.+]]:2 = call @main_scalars_2(%[[HIDDEN_A]]) {mhlo.frontend_attributes = {inlineable = "false", xla_cpu_small_call = "true"}}
  // CHECK-NEXT: return %[[A]]#0, %[[B]]#0
  %0 = stablehlo.sine %x : tensor<f64>
  %two = stablehlo.constant dense<2.0> : tensor<f64>
  %1 = stablehlo.multiply %0, %two : tensor<f64>
  %2 = stablehlo.sine %1 : tensor<f64>
  return %1, %2 : tensor<f64>, tensor<f64>
}
// CHECK: func.func private @main_scalars_2(%[[P:.+]]: tensor<f64>) -> (tensor<f64>, tensor<1xf64>)
// CHECK-NEXT: %[[E:.+]] = stablehlo.reshape %[[P]]
// CHECK-NEXT: %[[Q:.+]] = stablehlo.sine %[[P]]
// CHECK-NEXT: return %[[Q]], %[[E]]
// CHECK: func.func private @main_scalars_1(%[[P:.+]]: tensor<f64>) -> (tensor<f64>, tensor<1xf64>)
// CHECK-NEXT: %[[TWO:.+]] = stablehlo.constant dense<2.0
// CHECK-NEXT: %[[E:.+]] = stablehlo.reshape %[[P]]
// CHECK-NEXT: %[[Q:.+]] = stablehlo.sine %[[P]]
// CHECK-NEXT: %[[R:.+]] = stablehlo.multiply %[[Q]], %[[TWO]]
// CHECK-NEXT: return %[[R]], %[[E]]

// -----
// TEST: elements_of_arrays_and_functions_of_scalars_belong_to_it

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<8xf64>) -> tensor<f64> {
  // CHECK: %[[A:.+]]:2 = call @main_scalars_1
  // CHECK-NEXT: %[[HIDDEN_A:.+]] = stablehlo.optimization_barrier %[[A]]#0
  // CHECK-NEXT: %[[B:.+]]:2 = call @main_scalars_2(%[[HIDDEN_A]])
  // CHECK-NEXT: return %[[B]]#0
  %0 = stablehlo.slice %x [3:4] : (tensor<8xf64>) -> tensor<1xf64>
  %1 = stablehlo.reshape %0 : (tensor<1xf64>) -> tensor<f64>
  %2 = call @half(%1) : (tensor<f64>) -> tensor<f64>
  return %2 : tensor<f64>
}
func.func private @half(%x: tensor<f64>) -> tensor<f64> {
  %two = stablehlo.constant dense<2.0> : tensor<f64>
  %0 = stablehlo.divide %x, %two : tensor<f64>
  return %0 : tensor<f64>
}

// -----
// TEST: calls_arrays_and_short_rows_stay

// CHECK-LABEL: func.func public @main
// CHECK-NOT: scalars
// CHECK: return
func.func public @main(%x: tensor<f64>, %y: tensor<8xf64>) -> (tensor<f64>, tensor<8xf64>) {
  %0 = stablehlo.sine %x : tensor<f64>
  %1 = stablehlo.custom_call @f(%0) : (tensor<f64>) -> tensor<f64>
  %2 = stablehlo.sine %1 : tensor<f64>
  %3 = stablehlo.sine %y : tensor<8xf64>
  %4 = stablehlo.sine %3 : tensor<8xf64>
  return %2, %4 : tensor<f64>, tensor<8xf64>
}

// -----
// TEST: rows_in_loops_too

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>, %n: tensor<i32>) -> tensor<f64> {
  // CHECK: stablehlo.while
  // CHECK: do {
  // CHECK: %[[A:.+]]:2 = func.call @main_scalars_1(%{{.+}}) {{.*}} : (tensor<f64>) -> (tensor<f64>, tensor<1xf64>)
  // CHECK: %[[HIDDEN_A:.+]] = stablehlo.optimization_barrier %[[A]]#0
  // CHECK: func.call @main_scalars_2(%[[HIDDEN_A]])
  %0:2 = stablehlo.while(%i = %n, %v = %x) : tensor<i32>, tensor<f64>
   cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %1 = stablehlo.sine %v : tensor<f64>
    %2 = stablehlo.cosine %1 : tensor<f64>
    %3 = stablehlo.negate %2 : tensor<f64>
    stablehlo.return %i, %3 : tensor<i32>, tensor<f64>
  }
  return %0#1 : tensor<f64>
}
