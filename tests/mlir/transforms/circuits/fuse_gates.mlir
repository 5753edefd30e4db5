// RUN: --pass=fuse-gates

// TEST: straight_run_becomes_one_operation

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<0xi32>) -> tensor<2xui32> {
  // CHECK-SAME: %[[S:.+]]: tensor<2xui32>, %[[P:.+]]: tensor<1xf64>, %[[O:.+]]: tensor<i32>, %[[W:.+]]: tensor<0xi32>
  // CHECK-NEXT: %[[T:.+]] = "quantum.gates"(%[[S]], %[[P]], %[[O]], %[[W]])
  // CHECK-SAME: {code = array<i64: 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 2, 0, 0, 1>, constants = array<f64>, names = "RX\0ACNOT"}
  // CHECK-NEXT: return %[[T]]
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "RX", adjoint = false, slots = array<i64: 0>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "CNOT", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0, 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  return %2 : tensor<2xui32>
}

// -----
// TEST: constants_are_renumbered_and_names_kept_once

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %o: tensor<i32>, %w: tensor<0xi32>) -> tensor<2xui32> {
  // CHECK: code = array<i64: 0, 0, 1, 1, 0, -1, 0,
  // CHECK-SAME: 1, 0, 3, 1, 0, -3, 0, -2, 1,
  // CHECK-SAME: 0, 0, 1, 1, 0, -4, 0>
  // CHECK-SAME: constants = array<f64: 5.000000e-01, 1.000000e+00, 2.000000e+00, 2.500000e-01>
  // CHECK-SAME: names = "RZ\0ARot"
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "RZ", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.5>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "Rot", adjoint = false, slots = array<i64: -2, 0, -1>, constants = array<f64: 1.0, 2.0>, wires = array<i64: 1>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %3 = "quantum.gate"(%2, %p, %o, %w) {name = "RZ", adjoint = false, slots = array<i64: -1>, constants = array<f64: 0.25>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  return %3 : tensor<2xui32>
}

// -----
// TEST: adjoint_controls_and_dynamic_wires_are_written

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<0xf64>, %o: tensor<i32>, %w: tensor<2xi32>) -> tensor<2xui32> {
  // CHECK: code = array<i64: 0, 1, 0, 1, 2, -2, 3, -1, 0, 1>
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "S", adjoint = true, slots = array<i64>, constants = array<f64>, wires = array<i64: -2>, control_wires = array<i64: 3, -1>, control_values = array<i64: 0, 1>} : (tensor<2xui32>, tensor<0xf64>, tensor<i32>, tensor<2xi32>) -> tensor<2xui32>
  return %1 : tensor<2xui32>
}

// -----
// TEST: run_ends_where_other_parameters_are_read

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<1xf64>, %q: tensor<1xf64>, %o: tensor<i32>, %w: tensor<0xi32>) -> tensor<2xui32> {
  // CHECK-SAME: %[[S:.+]]: tensor<2xui32>, %[[P:.+]]: tensor<1xf64>, %[[Q:.+]]: tensor<1xf64>,
  // CHECK-NEXT: %[[A:.+]] = "quantum.gates"(%[[S]], %[[P]]
  // CHECK-NEXT: %[[B:.+]] = "quantum.gates"(%[[A]], %[[Q]]
  // CHECK-NEXT: return %[[B]]
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "RX", adjoint = false, slots = array<i64: 0>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %q, %o, %w) {name = "RX", adjoint = false, slots = array<i64: 0>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  return %2 : tensor<2xui32>
}

// -----
// TEST: run_ends_where_the_state_has_another_use

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<0xf64>, %o: tensor<i32>, %w: tensor<0xi32>) -> (tensor<2xui32>, tensor<2xui32>) {
  // CHECK-NEXT: %[[A:.+]] = "quantum.gates"
  // CHECK-NEXT: %[[B:.+]] = "quantum.gates"(%[[A]]
  // CHECK-NEXT: return %[[A]], %[[B]]
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "S", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<0xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %2 = "quantum.gate"(%1, %p, %o, %w) {name = "T", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<0xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  return %1, %2 : tensor<2xui32>, tensor<2xui32>
}

// -----
// TEST: interleaved_circuits_fuse_each_on_its_own

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %t: tensor<2xui32>, %p: tensor<0xf64>, %o: tensor<i32>, %w: tensor<0xi32>) -> (tensor<2xui32>, tensor<2xui32>) {
  // CHECK-SAME: %[[S:.+]]: tensor<2xui32>, %[[T:.+]]: tensor<2xui32>, %[[P:.+]]: tensor<0xf64>
  // CHECK-NEXT: %[[A:.+]] = "quantum.gates"(%[[S]], {{.*}}names = "S\0AX"
  // CHECK-NEXT: %[[B:.+]] = "quantum.gates"(%[[T]], {{.*}}names = "T\0AY"
  // CHECK-NEXT: return %[[A]], %[[B]]
  %s1 = "quantum.gate"(%s, %p, %o, %w) {name = "S", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<0xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %t1 = "quantum.gate"(%t, %p, %o, %w) {name = "T", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<0xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %s2 = "quantum.gate"(%s1, %p, %o, %w) {name = "X", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<0xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %t2 = "quantum.gate"(%t1, %p, %o, %w) {name = "Y", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<0xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  return %s2, %t2 : tensor<2xui32>, tensor<2xui32>
}

// -----
// TEST: run_stays_inside_its_loop

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<0xf64>, %o: tensor<i32>, %w: tensor<0xi32>) -> tensor<2xui32> {
  // CHECK-NEXT: %[[A:.+]] = "quantum.gates"{{.*}} names = "S"
  // CHECK-NEXT: %[[R:.+]]:2 = stablehlo.while(%[[I:.+]] = %{{.+}}, %[[T:.+]] = %[[A]])
  // CHECK: do {
  // CHECK: %[[B:.+]] = "quantum.gates"(%[[T]], {{.*}}names = "X\0AY"
  // CHECK-NEXT: stablehlo.return %{{.+}}, %[[B]]
  // CHECK: %[[C:.+]] = "quantum.gates"(%[[R]]#1, {{.*}}names = "Z"
  // CHECK-NEXT: return %[[C]]
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "S", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<0xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %r:2 = stablehlo.while(%i = %o, %t = %1) : tensor<i32>, tensor<2xui32>
    cond {
      %c = stablehlo.compare LT, %i, %o : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %2 = "quantum.gate"(%t, %p, %o, %w) {name = "X", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<0xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
      %3 = "quantum.gate"(%2, %p, %o, %w) {name = "Y", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<0xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
      stablehlo.return %i, %3 : tensor<i32>, tensor<2xui32>
    }
  %4 = "quantum.gate"(%r#1, %p, %o, %w) {name = "Z", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<0xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  return %4 : tensor<2xui32>
}

// -----
// TEST: gate_in_a_branch_does_not_join_the_run_before_it

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %b: tensor<i1>, %p: tensor<0xf64>, %o: tensor<i32>, %w: tensor<0xi32>) -> tensor<2xui32> {
  // CHECK-NEXT: %[[A:.+]] = "quantum.gates"{{.*}} names = "S"
  // CHECK-NEXT: stablehlo.if
  // CHECK-NEXT: %[[B:.+]] = "quantum.gates"(%[[A]], {{.*}}names = "X"
  // CHECK-NEXT: stablehlo.return %[[B]]
  // CHECK: stablehlo.return %[[A]]
  %1 = "quantum.gate"(%s, %p, %o, %w) {name = "S", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<0xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %r = "stablehlo.if"(%b) ({
    %2 = "quantum.gate"(%1, %p, %o, %w) {name = "X", adjoint = false, slots = array<i64>, constants = array<f64>, wires = array<i64: 0>, control_wires = array<i64>, control_values = array<i64>} : (tensor<2xui32>, tensor<0xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
    stablehlo.return %2 : tensor<2xui32>
  }, {
    stablehlo.return %1 : tensor<2xui32>
  }) : (tensor<i1>) -> tensor<2xui32>
  return %r : tensor<2xui32>
}

// -----
// TEST: what_is_no_gate_stays

// CHECK-LABEL: func.func public @main
func.func public @main(%s: tensor<2xui32>, %p: tensor<0xf64>) -> tensor<f64> {
  // CHECK-NEXT: %[[V:.+]]:2 = "quantum.measure"
  // CHECK-NEXT: "quantum.end"(%[[V]]#0)
  // CHECK-NEXT: return %[[V]]#1
  %v:2 = "quantum.measure"(%s, %p) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<0xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%v#0) : (tensor<2xui32>) -> ()
  return %v#1 : tensor<f64>
}
