// RUN: --pass=fuse-circuits

// TEST: circuit_becomes_one_operation

// CHECK-LABEL: func.func public @main
// CHECK-SAME: %[[P:.+]]: tensor<1xf64>
// CHECK-NOT: quantum.begin
// CHECK: %[[V:.+]]:2 = "quantum.run"(%[[P]], %[[P]])
// CHECK-SAME: {code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>, engine = 1 : i64, factory = "F", jacobian = 1 : i64, kwargs = "{}", library = "l", measurements = array<i64: 0, 3, 0>, name = "c", names = "RX", offset = 0 : i64, precision = 64 : i64, preparation = array<i64>, preparation_offset = -1 : i64, qubits = 1 : i64, record = 1 : i64, rows = 0 : i64, site = "f.py:9"}
// CHECK-NEXT: return %[[V]]#0, %[[V]]#1
// CHECK-NOT: func.func private
func.func public @main(%p: tensor<1xf64>) -> (tensor<f64>, tensor<1x1xf64>) {
  %s0 = "quantum.begin"(%p) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 1 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<1xf64>) -> tensor<2xui32>
  %s1, %v, %j = func.call @circuit(%s0, %p) : (tensor<2xui32>, tensor<1xf64>) -> (tensor<2xui32>, tensor<f64>, tensor<1x1xf64>)
  "quantum.end"(%s1) : (tensor<2xui32>) -> ()
  return %v, %j : tensor<f64>, tensor<1x1xf64>
}
func.func private @circuit(%s0: tensor<2xui32>, %p: tensor<1xf64>) -> (tensor<2xui32>, tensor<f64>, tensor<1x1xf64>) {
  %o = stablehlo.constant dense<0> : tensor<i32>
  %w = stablehlo.constant dense<> : tensor<0xi32>
  %s1 = "quantum.gates"(%s0, %p, %o, %w) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %s2, %v, %j = "quantum.measure"(%s1, %p) {code = array<i64: 0, 3, 0>, jacobian = 1 : i64} : (tensor<2xui32>, tensor<1xf64>) -> (tensor<2xui32>, tensor<f64>, tensor<1x1xf64>)
  return %s2, %v, %j : tensor<2xui32>, tensor<f64>, tensor<1x1xf64>
}

// -----
// TEST: circuit_on_a_computed_wire_becomes_one_operation

// CHECK-LABEL: func.func public @main
// CHECK-SAME: %[[P:.+]]: tensor<1xf64>, %[[W:.+]]: tensor<1xi32>
// CHECK: "quantum.run"(%[[P]], %[[P]], %[[W]])
// CHECK-NOT: quantum.end
func.func public @main(%p: tensor<1xf64>, %w: tensor<1xi32>) -> tensor<f64> {
  %o = stablehlo.constant dense<0> : tensor<i32>
  %s0 = "quantum.begin"(%p) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 1 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<1xf64>) -> tensor<2xui32>
  %s1 = "quantum.gates"(%s0, %p, %o, %w) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, -1>, constants = array<f64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %s2, %v = "quantum.measure"(%s1, %p) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<1xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%s2) : (tensor<2xui32>) -> ()
  return %v : tensor<f64>
}

// -----
// TEST: function_that_is_called_twice_is_in_both_places

// CHECK-LABEL: func.func public @main
// CHECK: "quantum.run"
// CHECK: "quantum.run"
// CHECK-NOT: quantum.end
func.func public @main(%p: tensor<1xf64>) -> (tensor<f64>, tensor<f64>) {
  %s0 = "quantum.begin"(%p) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 1 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<1xf64>) -> tensor<2xui32>
  %s1, %v = func.call @circuit(%s0, %p) : (tensor<2xui32>, tensor<1xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%s1) : (tensor<2xui32>) -> ()
  %t0 = "quantum.begin"(%p) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 1 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<1xf64>) -> tensor<2xui32>
  %t1, %u = func.call @circuit(%t0, %p) : (tensor<2xui32>, tensor<1xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%t1) : (tensor<2xui32>) -> ()
  return %v, %u : tensor<f64>, tensor<f64>
}
func.func private @circuit(%s0: tensor<2xui32>, %p: tensor<1xf64>) -> (tensor<2xui32>, tensor<f64>) {
  %o = stablehlo.constant dense<0> : tensor<i32>
  %w = stablehlo.constant dense<> : tensor<0xi32>
  %s1 = "quantum.gates"(%s0, %p, %o, %w) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %s2, %v = "quantum.measure"(%s1, %p) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<1xf64>) -> (tensor<2xui32>, tensor<f64>)
  return %s2, %v : tensor<2xui32>, tensor<f64>
}

// -----
// TEST: circuit_with_shots_stays

// CHECK-LABEL: func.func public @main
// CHECK: "quantum.begin"
// CHECK: "quantum.end"
func.func public @main(%p: tensor<1xf64>) -> tensor<f64> {
  %o = stablehlo.constant dense<0> : tensor<i32>
  %w = stablehlo.constant dense<> : tensor<0xi32>
  %s0 = "quantum.begin"(%p) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 5 : i64, record = 1 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<1xf64>) -> tensor<2xui32>
  %s1 = "quantum.gates"(%s0, %p, %o, %w) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %s2, %v = "quantum.measure"(%s1, %p) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<1xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%s2) : (tensor<2xui32>) -> ()
  return %v : tensor<f64>
}

// -----
// TEST: circuit_with_two_runs_of_gates_stays

// CHECK-LABEL: func.func public @main
// CHECK: "quantum.begin"
// CHECK: "quantum.end"
func.func public @main(%p: tensor<1xf64>) -> tensor<f64> {
  %o = stablehlo.constant dense<0> : tensor<i32>
  %w = stablehlo.constant dense<> : tensor<0xi32>
  %s0 = "quantum.begin"(%p) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 1 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<1xf64>) -> tensor<2xui32>
  %s1 = "quantum.gates"(%s0, %p, %o, %w) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %s2 = "quantum.gates"(%s1, %p, %o, %w) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %s3, %v = "quantum.measure"(%s2, %p) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<1xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%s3) : (tensor<2xui32>) -> ()
  return %v : tensor<f64>
}

// -----
// TEST: gates_at_a_computed_offset_stay

// CHECK-LABEL: func.func public @main
// CHECK: "quantum.begin"
// CHECK: "quantum.end"
func.func public @main(%p: tensor<1xf64>, %o: tensor<i32>) -> tensor<f64> {
  %w = stablehlo.constant dense<> : tensor<0xi32>
  %s0 = "quantum.begin"(%p) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 1 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<1xf64>) -> tensor<2xui32>
  %s1 = "quantum.gates"(%s0, %p, %o, %w) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %s2, %v = "quantum.measure"(%s1, %p) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<1xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%s2) : (tensor<2xui32>) -> ()
  return %v : tensor<f64>
}

// -----
// TEST: circuit_after_the_start_of_a_region_stays

// CHECK-LABEL: func.func public @main
// CHECK: "quantum.begin"
// CHECK: "quantum.end"
"callback.func"() {sym_name = "far", function_type = (tensor<1xf64>) -> tensor<1xf64>, python = "far", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%p: tensor<1xf64>) -> tensor<f64> {
  %o = stablehlo.constant dense<0> : tensor<i32>
  %w = stablehlo.constant dense<> : tensor<0xi32>
  %t = "callback.call"(%p) {callee = @far, kind = "start"} : (tensor<1xf64>) -> tensor<2xui32>
  %s0 = "quantum.begin"(%p, %t) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 1 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<1xf64>, tensor<2xui32>) -> tensor<2xui32>
  %s1 = "quantum.gates"(%s0, %p, %o, %w) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %s2, %v = "quantum.measure"(%s1, %p) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<1xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%s2) : (tensor<2xui32>) -> ()
  return %v : tensor<f64>
}
