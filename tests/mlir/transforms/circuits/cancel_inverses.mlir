// RUN: --pass=cancel-inverses

// TEST: pairs_go_across_gates_on_other_wires

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  // CHECK-SAME: %[[S:.+]]: tensor<2xui32>
  // CHECK-NEXT: "quantum.gate"(%[[S]]
  // CHECK-SAME: name = "PauliX"
  // CHECK-NEXT: return
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "Hadamard", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "PauliX", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %3 = "quantum.gate"(%2, %p, %o, %w) {name = "Hadamard", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %3 : tensor<2xui32>
}

// -----
// TEST: pairs_inside_pairs_go_too

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  // CHECK-NOT: quantum.gate
  // CHECK: return
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "CNOT", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0, 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "S", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %3 = "quantum.gate"(%2, %p, %o, %w) {name = "S", adjoint = true, slots = array<i64>, constants = array<f64>, wires = array<i64: 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %4 = "quantum.gate"(%3, %p, %o, %w) {name = "CNOT", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0, 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %4 : tensor<2xui32>
}

// -----
// TEST: order_of_wires_counts_where_it_matters

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  // CHECK: name = "CNOT"
  // CHECK: name = "CNOT"
  // CHECK-NOT: CZ
  // CHECK: return
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "CNOT", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0, 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "CNOT", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 1, 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %3 = "quantum.gate"(%2, %p, %o, %w) {name = "CZ", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0, 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %4 = "quantum.gate"(%3, %p, %o, %w) {name = "CZ", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 1, 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %4 : tensor<2xui32>
}

// -----
// TEST: gates_on_a_part_of_the_wires_keep_pairs_apart

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  // CHECK-COUNT-3: quantum.gate
  // CHECK: return
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "CNOT", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0, 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "PauliX", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %3 = "quantum.gate"(%2, %p, %o, %w) {name = "CNOT", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0, 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %3 : tensor<2xui32>
}

// -----
// TEST: other_control_values_are_other_gates

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  // CHECK-COUNT-1: quantum.gate
  // CHECK-NOT: quantum.gate
  // CHECK: return
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "PauliX", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64: 1, 2>, control_values = array<i64: 1, 0>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "PauliX", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64: 1, 2>, control_values = array<i64: 1, 1>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %3 = "quantum.gate"(%2, %p, %o, %w) {name = "PauliX", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64: 2, 1>, control_values = array<i64: 1, 1>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %3 : tensor<2xui32>
}

// -----
// TEST: computed_parameters_and_dynamic_wires_stay

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  // CHECK-COUNT-5: quantum.gate
  // CHECK: return
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "RX", adjoint = false, slots = array<i64: 0>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "RX", adjoint = true, slots = array<i64: 1>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %3 = "quantum.gate"(%2, %p, %o, %w) {name = "Hadamard", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %4 = "quantum.gate"(%3, %p, %o, %w) {name = "PauliX", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: -1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %5 = "quantum.gate"(%4, %p, %o, %w) {name = "Hadamard", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %5 : tensor<2xui32>
}
