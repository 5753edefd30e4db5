// RUN: --verify-only

// TEST: right_operations_are_accepted

// CHECK: "quantum.begin"
// CHECK: "quantum.gates"
// CHECK: "quantum.measure"
// CHECK: "quantum.end"
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
  %1 = "quantum.gates"(%s, %p, %o, %w) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %t = "quantum.gates"(%s, %p, %o, %w, %o) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<1xi32>, tensor<i32>) -> tensor<2xui32>
  %2 = "quantum.gates"(%s, %p, %o, %w) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  %3:2 = "quantum.measure"(%s, %p) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<1xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%s) {} : (tensor<2xui32>) -> ()
  return
}

// -----
// TEST: begin_without_library
// REFUSED

// CHECK: bellhop-opt: quantum.begin lacks the attribute 'library'
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
  return
}

// -----
// TEST: begin_without_factory
// REFUSED

// CHECK: bellhop-opt: quantum.begin lacks the attribute 'factory'
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
  return
}

// -----
// TEST: begin_without_kwargs
// REFUSED

// CHECK: bellhop-opt: quantum.begin lacks the attribute 'kwargs'
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", qubits = 1 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
  return
}

// -----
// TEST: begin_without_qubits
// REFUSED

// CHECK: bellhop-opt: quantum.begin lacks the attribute 'qubits'
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
  return
}

// -----
// TEST: begin_without_shots
// REFUSED

// CHECK: bellhop-opt: quantum.begin lacks the attribute 'shots'
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
  return
}

// -----
// TEST: begin_without_record
// REFUSED

// CHECK: bellhop-opt: quantum.begin lacks the attribute 'record'
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64} : (tensor<f64>) -> tensor<2xui32>
  return
}

// -----
// TEST: gates_without_names
// REFUSED

// CHECK: bellhop-opt: quantum.gates lacks the attribute 'names'
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0 = "quantum.gates"(%s, %p, %o, %w) {code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return
}

// -----
// TEST: gates_without_code
// REFUSED

// CHECK: bellhop-opt: quantum.gates lacks the attribute 'code'
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0 = "quantum.gates"(%s, %p, %o, %w) {names = "RX", constants = array<f64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return
}

// -----
// TEST: gates_without_constants
// REFUSED

// CHECK: bellhop-opt: quantum.gates lacks the attribute 'constants'
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0 = "quantum.gates"(%s, %p, %o, %w) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, 0>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return
}

// -----
// TEST: measure_without_code
// REFUSED

// CHECK: bellhop-opt: quantum.measure lacks the attribute 'code'
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0:2 = "quantum.measure"(%s, %p) {} : (tensor<2xui32>, tensor<1xf64>) -> (tensor<2xui32>, tensor<f64>)
  return
}

// -----
// TEST: qubits_of_another_type
// REFUSED

// CHECK: bellhop-opt: the attribute 'qubits' of quantum.begin is 1 : i32, but must be of type i64
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i32, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
  return
}

// -----
// TEST: constants_of_another_type
// REFUSED

// CHECK: bellhop-opt: the attribute 'constants' of quantum.gates is array<i64>, but must be of type array<f64>
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0 = "quantum.gates"(%s, %p, %o, %w) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<i64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return
}

// -----
// TEST: begin_without_a_state
// REFUSED

// CHECK: bellhop-opt: quantum.begin has results of types (), expected (tensor<2xui32>)
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> ()
  return
}

// -----
// TEST: gates_with_parameters_of_another_type
// REFUSED

// CHECK: bellhop-opt: quantum.gates has operands of types (tensor<2xui32>, tensor<f64>, tensor<i32>, tensor<1xi32>)
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0 = "quantum.gates"(%s, %x, %o, %w) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>} : (tensor<2xui32>, tensor<f64>, tensor<i32>, tensor<1xi32>) -> tensor<2xui32>
  return
}

// -----
// TEST: gates_with_a_number_of_turns_of_another_type
// REFUSED

// CHECK: bellhop-opt: quantum.gates has operands of types (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<1xi32>, tensor<f64>), expected (tensor<2xui32>, tensor<[?x]?xf64> or tensor<[?x]?xf32> or tensor<[?x]?xcomplex<f64>> or tensor<[?x]?xcomplex<f32>>, tensor<i32>, tensor<[?x]?xi32>, [tensor<i32>])
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0 = "quantum.gates"(%s, %p, %o, %w, %x) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<1xi32>, tensor<f64>) -> tensor<2xui32>
  return
}

// -----
// TEST: measure_without_data
// REFUSED

// CHECK: bellhop-opt: quantum.measure has operands of types (tensor<2xui32>), expected (tensor<2xui32>, tensor<[?x]?xf64>, [tensor<[?x]?xf64>])
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0:2 = "quantum.measure"(%s) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>) -> (tensor<2xui32>, tensor<f64>)
  return
}

// -----
// TEST: measure_that_does_not_return_the_state_first
// REFUSED

// CHECK: bellhop-opt: quantum.measure has results of types (tensor<f64>, tensor<2xui32>), expected (tensor<2xui32>, ...)
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0:2 = "quantum.measure"(%s, %p) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<1xf64>) -> (tensor<f64>, tensor<2xui32>)
  return
}

// -----
// TEST: score_that_is_no_vector
// REFUSED

// CHECK: bellhop-opt: quantum.score has results of types (tensor<2xui32>, tensor<i32>, tensor<1x1xf64>), expected (tensor<2xui32>, tensor<i32>, tensor<?xf64>)
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0:3 = "quantum.score"(%s) {} : (tensor<2xui32>) -> (tensor<2xui32>, tensor<i32>, tensor<1x1xf64>)
  return
}

// -----
// TEST: end_with_a_result
// REFUSED

// CHECK: bellhop-opt: quantum.end has results of types (tensor<2xui32>), expected ()
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<1xi32>, %x: tensor<f64>) {
  %0 = "quantum.end"(%s) {} : (tensor<2xui32>) -> tensor<2xui32>
  return
}

// -----
// TEST: unknown_operation
// REFUSED

// CHECK: bellhop-opt: unknown operation quantum.reset
"quantum.reset"() : () -> ()

// -----
// TEST: randomness_is_accepted

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %w: tensor<i32>) {
  // CHECK: quantum.seed
  %r = "quantum.seed"() {circuit = 0 : i64} : () -> tensor<4xui32>
  // CHECK: quantum.mid_measure
  %m, %bit = "quantum.mid_measure"(%s, %w) {postselect = -1 : i64, reset = 1 : i64, site = ""} : (tensor<2xui32>, tensor<i32>) -> (tensor<2xui32>, tensor<i1>)
  // CHECK: quantum.restart
  %n, %more, %counts = "quantum.restart"(%m) : (tensor<2xui32>) -> (tensor<2xui32>, tensor<i1>, tensor<i1>)
  return
}

// -----
// TEST: begin_without_seeded
// REFUSED

// CHECK: bellhop-opt: quantum.begin lacks the attribute 'seeded'
func.func public @main(%x: tensor<f64>) {
  %0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64} : (tensor<f64>) -> tensor<2xui32>
  return
}

// -----
// TEST: outcome_that_is_no_boolean
// REFUSED

// CHECK: bellhop-opt: quantum.mid_measure has results of types (tensor<2xui32>, tensor<i32>)
func.func public @main(%s: tensor<2xui32>, %w: tensor<i32>) {
  %m, %bit = "quantum.mid_measure"(%s, %w) {postselect = -1 : i64, reset = 1 : i64, site = ""} : (tensor<2xui32>, tensor<i32>) -> (tensor<2xui32>, tensor<i32>)
  return
}

// -----
// TEST: seed_without_circuit
// REFUSED

// CHECK: bellhop-opt: quantum.seed lacks the attribute 'circuit'
func.func public @main() {
  %r = "quantum.seed"() : () -> tensor<4xui32>
  return
}

// -----
// TEST: batch

// CHECK: rows = 3 : i64
// CHECK: tensor<3x2x1xf64>
func.func public @main(%p: tensor<3x1xf64>, %o: tensor<i32>, %w: tensor<3x2xi32>, %d: tensor<3x0xf64>, %i: tensor<1xi32>, %b: tensor<0x1xf64>, %a: tensor<1x0xf64>) {
  %0 = "quantum.begin"(%p) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 1 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 3 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<3x1xf64>) -> tensor<2xui32>
  %1 = "quantum.gates"(%0, %p, %o, %w) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, -2>, constants = array<f64>} : (tensor<2xui32>, tensor<3x1xf64>, tensor<i32>, tensor<3x2xi32>) -> tensor<2xui32>
  %2:4 = "quantum.measure"(%1, %d) {code = array<i64: 0, 3, 0, 0, 3, 0>, jacobian = 1 : i64} : (tensor<2xui32>, tensor<3x0xf64>) -> (tensor<2xui32>, tensor<3xf64>, tensor<3xf64>, tensor<3x2x1xf64>)
  %3:3 = "quantum.derivative"(%2#0, %d, %p, %i, %b, %o, %a) {code = array<i64: 0, 3, 0>, sizes = array<i64: 1>, squares = array<i64: -1>, ends = array<i64: 0>, coefficients = array<f64>, amounts = array<f64>, order = 2 : i64, adjoint = 1 : i64, keep = 0 : i64} : (tensor<2xui32>, tensor<3x0xf64>, tensor<3x1xf64>, tensor<1xi32>, tensor<0x1xf64>, tensor<i32>, tensor<1x0xf64>) -> (tensor<2xui32>, tensor<i32>, tensor<3x1x1x1xf64>)
  "quantum.end"(%3#0) : (tensor<2xui32>) -> ()
  return
}

