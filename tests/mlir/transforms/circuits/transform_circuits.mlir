// RUN: --pass=transform-circuits

// TEST: a_circuit_gets_the_passes_that_it_asks_for

// CHECK-LABEL: func.func private @circuit
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  %b = "quantum.begin"() {name = "c", site = "f.py:9", library = "l", factory = "f", kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64, passes = "cancel-inverses"} : () -> tensor<2xui32>
  %c = func.call @circuit(%b, %p, %o, %w) : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %c : tensor<2xui32>
}
func.func private @circuit(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  // CHECK-NOT: PauliX
  // CHECK-COUNT-2: name = "RX"
  // CHECK: return
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "PauliX", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "PauliX", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %3 = "quantum.gate"(%2, %p, %o, %w) {name = "RX", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.5>, wires = array<i64: 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %4 = "quantum.gate"(%3, %p, %o, %w) {name = "RX", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.5>, wires = array<i64: 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %4 : tensor<2xui32>
}

// -----
// TEST: several_passes_run_in_order

// CHECK-LABEL: func.func private @circuit
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  %b = "quantum.begin"() {name = "c", site = "f.py:9", library = "l", factory = "f", kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64, passes = "cancel-inverses merge-rotations"} : () -> tensor<2xui32>
  %c = func.call @circuit(%b, %p, %o, %w) : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %c : tensor<2xui32>
}
func.func private @circuit(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  // CHECK-NOT: PauliX
  // CHECK-COUNT-1: name = "RX"
  // CHECK-NOT: name = "RX"
  // CHECK: return
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "PauliX", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "PauliX", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %3 = "quantum.gate"(%2, %p, %o, %w) {name = "RX", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.5>, wires = array<i64: 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %4 = "quantum.gate"(%3, %p, %o, %w) {name = "RX", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.5>, wires = array<i64: 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %4 : tensor<2xui32>
}

// -----
// TEST: a_circuit_that_asks_for_nothing_stays

// CHECK-LABEL: func.func private @circuit
func.func public @main(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  %b = "quantum.begin"() {name = "c", site = "f.py:9", library = "l", factory = "f", kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : () -> tensor<2xui32>
  %c = func.call @circuit(%b, %p, %o, %w) : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %c : tensor<2xui32>
}
func.func private @circuit(%s: tensor<2xui32>, %p: tensor<2xf64>, %o: tensor<i32>, %w: tensor<1xi32>) -> tensor<2xui32> {
  // CHECK-COUNT-4: quantum.gate
  // CHECK: return
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "PauliX", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "PauliX", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %3 = "quantum.gate"(%2, %p, %o, %w) {name = "RX", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.5>, wires = array<i64: 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %4 = "quantum.gate"(%3, %p, %o, %w) {name = "RX", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.5>, wires = array<i64: 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<2xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return %4 : tensor<2xui32>
}
