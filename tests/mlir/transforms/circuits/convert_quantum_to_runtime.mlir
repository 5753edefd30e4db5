// RUN: --pass=convert-quantum-to-runtime

// TEST: circuit_becomes_custom_calls

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<0xi32>) -> (tensor<f64>, tensor<1x1xf64>) {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>, %[[P:.+]]: tensor<1xf64>, %[[O:.+]]: tensor<i32>, %[[W:.+]]: tensor<0xi32>
  // CHECK-NEXT: %[[S0:.+]] = stablehlo.custom_call @bellhop_circuit_begin(%[[X]])
  // CHECK-SAME: backend_config = {engine = 1 : i64, factory = "F", kwargs = "{}", library = "l", name = "c", precision = 64 : i64, program = 0 : i64, qubits = 1 : i64, record = 1 : i64, rows = 0 : i64, seeded = 0 : i64, shots = 0 : i64, site = "f.py:9", tree = 0 : i64}
  // CHECK-SAME: has_side_effect = true
  // CHECK-NEXT: %[[S1:.+]] = stablehlo.custom_call @bellhop_circuit_gates(%[[S0]], %[[P]], %[[O]], %[[W]])
  // CHECK-SAME: backend_config = {code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>, names = "RX"}
  // CHECK-SAME: has_side_effect = true
  // CHECK-NEXT: %[[V:.+]]:3 = stablehlo.custom_call @bellhop_circuit_measure(%[[S1]], %[[P]])
  // CHECK-SAME: backend_config = {code = array<i64: 0, 3, 0>, jacobian = 1 : i64}
  // CHECK-SAME: has_side_effect = true
  // CHECK-NEXT: stablehlo.custom_call @bellhop_circuit_end(%[[V]]#0)
  // CHECK-SAME: backend_config = {}
  // CHECK-SAME: has_side_effect = true
  // CHECK-SAME: -> ()
  // CHECK-NEXT: return %[[V]]#1, %[[V]]#2
  %s0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 1 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
  %s1 = "quantum.gates"(%s0, %p, %o, %w) {names = "RX", code = array<i64: 0, 0, 1, 1, 0, 0, 0>, constants = array<f64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %s2, %v, %j = "quantum.measure"(%s1, %p) {code = array<i64: 0, 3, 0>, jacobian = 1 : i64} : (tensor<2xui32>, tensor<1xf64>) -> (tensor<2xui32>, tensor<f64>, tensor<1x1xf64>)
  "quantum.end"(%s2) : (tensor<2xui32>) -> ()
  return %v, %j : tensor<f64>, tensor<1x1xf64>
}

// -----
// TEST: derivatives_of_any_order

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %d: tensor<0xf64>, %p: tensor<1xf64>, %r: tensor<1xi32>, %b: tensor<0x1xf64>, %n: tensor<i32>, %a: tensor<2x1xf64>, %v: tensor<2xf64>) -> (tensor<2x1x1x1xf64>, tensor<2x1xf64>) {
  // CHECK-SAME: %[[S:.+]]: tensor<2xui32>, %[[D:.+]]: tensor<0xf64>, %[[P:.+]]: tensor<1xf64>, %[[R:.+]]: tensor<1xi32>, %[[B:.+]]: tensor<0x1xf64>, %[[N:.+]]: tensor<i32>, %[[A:.+]]: tensor<2x1xf64>, %[[V:.+]]: tensor<2xf64>
  // CHECK-NEXT: %[[H:.+]]:3 = stablehlo.custom_call @bellhop_circuit_derivative(%[[S]], %[[D]], %[[P]], %[[R]], %[[B]], %[[N]], %[[A]])
  // CHECK-SAME: backend_config = {adjoint = 0 : i64, amounts = array<f64: 1.000000e+00>, code = array<i64: 0, 3, 0>, coefficients = array<f64: 2.000000e+00>, ends = array<i64: 1>, keep = 1 : i64, order = 2 : i64, sizes = array<i64: 1>, squares = array<i64: -1>}
  // CHECK-SAME: has_side_effect = true
  // CHECK-NEXT: %[[J:.+]] = stablehlo.custom_call @bellhop_circuit_jvp(%[[H]]#0, %[[V]], %[[H]]#1)
  // CHECK-SAME: has_side_effect = true
  // CHECK-NEXT: return %[[H]]#2, %[[J]]
  %s1, %k, %h = "quantum.derivative"(%s, %d, %p, %r, %b, %n, %a) {code = array<i64: 0, 3, 0>, sizes = array<i64: 1>, squares = array<i64: -1>, ends = array<i64: 1>, coefficients = array<f64: 2.0>, amounts = array<f64: 1.0>, order = 2 : i64, adjoint = 0 : i64, keep = 1 : i64} : (tensor<2xui32>, tensor<0xf64>, tensor<1xf64>, tensor<1xi32>, tensor<0x1xf64>, tensor<i32>, tensor<2x1xf64>) -> (tensor<2xui32>, tensor<i32>, tensor<2x1x1x1xf64>)
  %j = "quantum.jvp"(%s1, %v, %k) : (tensor<2xui32>, tensor<2xf64>, tensor<i32>) -> tensor<2x1xf64>
  return %h, %j : tensor<2x1x1x1xf64>, tensor<2x1xf64>
}

// -----
// TEST: derivatives_by_dynamic_count_parameters

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %c: tensor<1x2xf64>, %n: tensor<i32>, %b: tensor<i1>) -> (tensor<2xui32>, tensor<1x3xf64>, tensor<i1>) {
  // CHECK-SAME: %[[S:.+]]: tensor<2xui32>, %[[C:.+]]: tensor<1x2xf64>, %[[N:.+]]: tensor<i32>
  // CHECK-NEXT: %[[T:.+]] = stablehlo.custom_call @bellhop_circuit_vjp(%[[S]], %[[C]], %[[N]])
  // CHECK-SAME: has_side_effect = true
  // CHECK-NEXT: %[[W:.+]] = stablehlo.custom_call @bellhop_circuit_cotangents(%[[S]], %[[T]], %[[N]])
  // CHECK-SAME: has_side_effect = true
  // CHECK-NEXT: %[[A:.+]] = stablehlo.custom_call @bellhop_circuit_after(%[[S]], %[[W]])
  // CHECK-SAME: has_side_effect = true
  // CHECK-NEXT: %[[M:.+]] = stablehlo.custom_call @bellhop_circuit_remember(%[[A]], %{{.+}}, %[[N]])
  // CHECK-SAME: has_side_effect = true
  // CHECK-NEXT: %[[R:.+]] = stablehlo.custom_call @bellhop_circuit_recall(%[[M]], %[[N]])
  // CHECK-SAME: has_side_effect = true
  // CHECK-NEXT: return %[[M]], %[[W]], %[[R]]
  %t = "quantum.vjp"(%s, %c, %n) {bits = 53 : i64} : (tensor<2xui32>, tensor<1x2xf64>, tensor<i32>) -> tensor<1xf64>
  %w = "quantum.cotangents"(%s, %t, %n) : (tensor<2xui32>, tensor<1xf64>, tensor<i32>) -> tensor<1x3xf64>
  %a = "quantum.after"(%s, %w) : (tensor<2xui32>, tensor<1x3xf64>) -> tensor<2xui32>
  %m = "quantum.remember"(%a, %b, %n) : (tensor<2xui32>, tensor<i1>, tensor<i32>) -> tensor<2xui32>
  %r = "quantum.recall"(%m, %n) : (tensor<2xui32>, tensor<i32>) -> tensor<i1>
  return %m, %w, %r : tensor<2xui32>, tensor<1x3xf64>, tensor<i1>
}

// -----
// TEST: operations_in_loops_are_converted_without_attributes_of_others

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %x: tensor<i32>, %p: tensor<0xf64>, %w: tensor<0xi32>) -> tensor<2xui32> {
  // CHECK: do {
  // CHECK: stablehlo.custom_call @bellhop_circuit_gates
  // CHECK-SAME: backend_config = {code = array<i64: 0, 0, 0, 1, 0, 0>, constants = array<f64>, names = "X"}
  %r:2 = stablehlo.while(%i = %x, %t = %s) : tensor<i32>, tensor<2xui32>
    cond {
      %c = stablehlo.compare LT, %i, %x : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %u = "quantum.gates"(%t, %p, %i, %w) {names = "X", code = array<i64: 0, 0, 0, 1, 0, 0>, constants = array<f64>, mhlo.sharding = "{replicated}"} : (tensor<2xui32>, tensor<0xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
      stablehlo.return %i, %u : tensor<i32>, tensor<2xui32>
    }
  return %r#1 : tensor<2xui32>
}

// -----
// TEST: other_operations_stay

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-NEXT: "callback.call"
  // CHECK-NOT: custom_call
  %y = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()

// -----
// TEST: measurements_in_the_middle_and_restarts

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %w: tensor<i32>) -> (tensor<2xui32>, tensor<i1>, tensor<i1>) {
  // CHECK-SAME: %[[S:.+]]: tensor<2xui32>, %[[W:.+]]: tensor<i32>
  // CHECK-NEXT: %[[M:.+]]:2 = stablehlo.custom_call @bellhop_circuit_mid_measure(%[[S]], %[[W]])
  // CHECK-SAME: backend_config = {postselect = 1 : i64, reset = 0 : i64, site = "f.py:3"}
  // CHECK-SAME: has_side_effect = true
  // CHECK-NEXT: %[[R:.+]]:3 = stablehlo.custom_call @bellhop_circuit_restart(%[[M]]#0)
  // CHECK-SAME: backend_config = {}
  // CHECK-SAME: has_side_effect = true
  %m, %bit = "quantum.mid_measure"(%s, %w) {postselect = 1 : i64, reset = 0 : i64, site = "f.py:3"} : (tensor<2xui32>, tensor<i32>) -> (tensor<2xui32>, tensor<i1>)
  %r, %more, %counts = "quantum.restart"(%m) : (tensor<2xui32>) -> (tensor<2xui32>, tensor<i1>, tensor<i1>)
  return %r, %bit, %more : tensor<2xui32>, tensor<i1>, tensor<i1>
}

// -----
// TEST: seed_without_a_table
// REFUSED

// CHECK: bellhop-opt: convert-quantum-to-runtime needs convert-callback-to-runtime to run before it
func.func public @main() -> tensor<4xui32> {
  %0 = "quantum.seed"() {circuit = 0 : i64} : () -> tensor<4xui32>
  return %0 : tensor<4xui32>
}
