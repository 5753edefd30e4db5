// RUN: --pass=merge-loop-boundaries

// TEST: gates_that_undo_each_other_leave_the_loop

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<0xi32>, %n: tensor<i32>) -> tensor<2xui32> {
  // CHECK-SAME: %[[S:.+]]: tensor<2xui32>, %[[P:.+]]: tensor<2xf64>
  // CHECK: %[[A:.+]] = "quantum.gate"(%[[S]]
  // CHECK-SAME: name = "Hadamard"
  // CHECK: stablehlo.while(%{{.+}} = %{{.+}}, %[[I:.+]] = %[[A]])
  // CHECK: do {
  // CHECK-NOT: Hadamard
  // CHECK: %[[X:.+]] = "quantum.gate"(%[[I]], %[[P]]
  // CHECK-SAME: name = "RX"
  // CHECK-NOT: Hadamard
  // CHECK: stablehlo.return %{{.+}}, %[[X]]
  // CHECK: %[[B:.+]] = "quantum.gate"(%{{.+}}#1
  // CHECK-SAME: name = "Hadamard"
  // CHECK-NEXT: return %[[B]]
  %r:2 = stablehlo.while(%i = %n, %t = %s) : tensor<i32>, tensor<2xui32>
  cond {
    %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %1 = "quantum.gate"(%t, %p, %o, %w) {name = "Hadamard", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
    %2 = "quantum.gate"(%1, %p, %o, %w) {name = "RX", adjoint = false, slots = array<i64: 0>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
    %3 = "quantum.gate"(%2, %p, %o, %w) {name = "Hadamard", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
    stablehlo.return %i, %3 : tensor<i32>, tensor<2xui32>
  }
  return %r#1 : tensor<2xui32>
}

// -----
// TEST: rotations_in_a_function_merge

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<0xi32>, %n: tensor<i32>) -> tensor<2xui32> {
  // CHECK: %[[A:.+]] = "quantum.gate"
  // CHECK-SAME: constants = array<f64: 2.500000e-01>
  // CHECK: stablehlo.while(%{{.+}} = %{{.+}}, %{{.+}} = %[[A]])
  // CHECK: %[[B:.+]] = "quantum.gate"(%{{.+}}#1
  // CHECK-SAME: constants = array<f64: -2.500000e-01>
  // CHECK-NEXT: return %[[B]]
  %r:2 = stablehlo.while(%i = %n, %t = %s) : tensor<i32>, tensor<2xui32>
  cond {
    %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %1 = func.call @body(%p, %t, %o, %w) : (tensor<2xf64>, tensor<2xui32>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
    stablehlo.return %i, %1 : tensor<i32>, tensor<2xui32>
  }
  return %r#1 : tensor<2xui32>
}
// CHECK-LABEL: func.func private @body
func.func private @body(%p: tensor<2xf64>, %t: tensor<2xui32>, %o: tensor<i32>, %w: tensor<0xi32>) -> tensor<2xui32> {
  // CHECK-NEXT: name = "PauliX"
  // CHECK-NEXT: constants = array<f64: 7.500000e-01>
  // CHECK-NEXT: return
  %1 = "quantum.gate"(%t, %p, %o, %w) {name = "RZ", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.25>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "PauliX", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %3 = "quantum.gate"(%2, %p, %o, %w) {name = "RZ", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.5>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  return %3 : tensor<2xui32>
}

// -----
// TEST: what_stands_between_on_the_same_wire_stays

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<0xi32>, %n: tensor<i32>) -> tensor<2xui32> {
  // CHECK-NEXT: stablehlo.while
  // CHECK: name = "PauliX"
  // CHECK: name = "CNOT"
  // CHECK: name = "PauliX"
  // CHECK: name = "S"
  // CHECK: stablehlo.return
  %r:2 = stablehlo.while(%i = %n, %t = %s) : tensor<i32>, tensor<2xui32>
  cond {
    %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %1 = "quantum.gate"(%t, %p, %o, %w) {name = "PauliX", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
    %2 = "quantum.gate"(%1, %p, %o, %w) {name = "CNOT", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0, 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
    %3 = "quantum.gate"(%2, %p, %o, %w) {name = "PauliX", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
    %4 = "quantum.gate"(%3, %p, %o, %w) {name = "S", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
    stablehlo.return %i, %4 : tensor<i32>, tensor<2xui32>
  }
  return %r#1 : tensor<2xui32>
}
