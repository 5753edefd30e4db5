// RUN: --pass=merge-rotations

// TEST: constants_are_summed

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  // CHECK: "quantum.gate"
  // CHECK-SAME: constants = array<f64: 2.500000e-01>
  // CHECK-SAME: name = "RZ", slots = array<i64: -1>
  // CHECK-NEXT: return
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "RZ", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.5>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "RZ", adjoint = true, slots = array<i64: -1>, constants = array<f64: 0.25>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %2 : tensor<2xui32>
}

// -----
// TEST: rotations_of_one_pauli_word

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  // CHECK: "quantum.gate"
  // CHECK-SAME: constants = array<f64: 7.500000e-01>
  // CHECK-SAME: name = "PauliRot:YX"
  // CHECK-NEXT: "quantum.gate"
  // CHECK-SAME: name = "PauliRot:XY"
  // CHECK-NEXT: return
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "PauliRot:XY", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.5>, wires = array<i64: 0, 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "PauliRot:YX", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.25>, wires = array<i64: 1, 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %3 = "quantum.gate"(%2, %p, %o, %w) {name = "PauliRot:XY", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.25>, wires = array<i64: 1, 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %3 : tensor<2xui32>
}

// -----
// TEST: a_sum_of_zero_is_no_gate

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  // CHECK-NOT: quantum.gate
  // CHECK: return
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "RZ", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.5>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "RZ", adjoint = false, slots = array<i64: -1>, constants = array<f64: -0.5>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %2 : tensor<2xui32>
}

// -----
// TEST: angles_that_the_program_computes_stay

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  // CHECK-COUNT-2: quantum.gate
  // CHECK: return
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "RX", adjoint = false, slots = array<i64: 0>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "RX", adjoint = false, slots = array<i64: 1>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %2 : tensor<2xui32>
}

// -----
// TEST: other_axes_and_wires_stay

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  // CHECK-COUNT-3: quantum.gate
  // CHECK: return
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "RX", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.5>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "RY", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.5>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %3 = "quantum.gate"(%2, %p, %o, %w) {name = "RY", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.5>, wires = array<i64: 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %3 : tensor<2xui32>
}
