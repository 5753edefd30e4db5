// RUN: --pass=canonicalize-callbacks

// TEST: equal_calls_merge_and_dead_ones_go

// CHECK: "callback.func"() {{.*}}sym_name = "f"
// CHECK-NOT: sym_name = "g"
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
"callback.func"() {sym_name = "g", function_type = (tensor<f64>) -> tensor<f64>, python = "g", site = "f.py:2", id = 1 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>
  // CHECK-NEXT: %[[Y:.+]] = "callback.call"(%[[X]]) {callee = @f, kind = "pure"}
  // CHECK-NEXT: %[[Z:.+]] = stablehlo.add %[[Y]], %[[Y]]
  // CHECK-NEXT: return %[[Z]]
  %0 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %1 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %2 = "callback.call"(%x) {callee = @g, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %3 = stablehlo.add %0, %1 : tensor<f64>
  return %3 : tensor<f64>
}

// -----
// TEST: calls_with_other_operands_or_effects_stay

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> (), python = "log", site = "f.py:2", id = 1 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%t: !stablehlo.token, %x: tensor<f64>, %y: tensor<f64>) -> (!stablehlo.token, tensor<f64>) {
  // CHECK-SAME: %[[T:.+]]: !stablehlo.token, %[[X:.+]]: tensor<f64>, %[[Y:.+]]: tensor<f64>
  // CHECK-NEXT: %[[A:.+]] = "callback.call"(%[[X]]) {callee = @f, kind = "pure"}
  // CHECK-NEXT: %[[B:.+]] = "callback.call"(%[[Y]]) {callee = @f, kind = "pure"}
  // CHECK-NEXT: "callback.call"(%[[X]]) {callee = @log, kind = "io"}
  // CHECK-NEXT: "callback.call"(%[[X]]) {callee = @log, kind = "io"}
  // CHECK-NEXT: %[[T1:.+]] = "callback.call"(%[[T]], %[[X]]) {callee = @log, kind = "debug"}
  // CHECK-NEXT: %[[T2:.+]] = "callback.call"(%[[T1]], %[[X]]) {callee = @log, kind = "debug"}
  // CHECK-NEXT: %[[C:.+]] = stablehlo.add %[[A]], %[[B]]
  // CHECK-NEXT: return %[[T2]], %[[C]]
  %0 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %1 = "callback.call"(%y) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  "callback.call"(%x) {callee = @log, kind = "io"} : (tensor<f64>) -> ()
  "callback.call"(%x) {callee = @log, kind = "io"} : (tensor<f64>) -> ()
  %t1 = "callback.call"(%t, %x) {callee = @log, kind = "debug"} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
  %t2 = "callback.call"(%t1, %x) {callee = @log, kind = "debug"} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
  %2 = stablehlo.add %0, %1 : tensor<f64>
  return %t2, %2 : !stablehlo.token, tensor<f64>
}

// -----
// TEST: chains_of_equal_calls_merge

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  // CHECK-NEXT: %[[A:.+]] = "callback.call"
  // CHECK-NEXT: %[[B:.+]] = "callback.call"(%[[A]])
  // CHECK-NEXT: return %[[B]], %[[B]]
  %0 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %1 = "callback.call"(%0) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %2 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %3 = "callback.call"(%2) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %1, %3 : tensor<f64>, tensor<f64>
}

// -----
// TEST: dead_chain_through_other_operations_goes

// CHECK-NOT: callback.func
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>
  // CHECK-NEXT: return %[[X]]
  %0 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %1 = stablehlo.sine %0 : tensor<f64>
  %2 = "callback.call"(%1) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %3 = func.call @helper(%2) : (tensor<f64>) -> tensor<f64>
  return %x : tensor<f64>
}
// CHECK-NOT: func.func
func.func private @helper(%x: tensor<f64>) -> tensor<f64> {
  %0 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %0 : tensor<f64>
}

// -----
// TEST: call_inside_merges_with_an_equal_one_before_it_outside

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>, %p: tensor<i1>) -> tensor<f64> {
  // CHECK: %[[Y:.+]] = "callback.call"
  // CHECK-NEXT: stablehlo.while
  // CHECK: do {
  // CHECK-NEXT: "stablehlo.if"
  // CHECK-NEXT: stablehlo.return %[[Y]]
  // CHECK-NOT: callback.call
  %0 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %1 = stablehlo.while(%i = %0) : tensor<f64>
    cond {
      %t = stablehlo.compare LT, %i, %x : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %2 = "stablehlo.if"(%p) ({
        %3 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
        stablehlo.return %3 : tensor<f64>
      }, {
        stablehlo.return %x : tensor<f64>
      }) : (tensor<i1>) -> tensor<f64>
      stablehlo.return %2 : tensor<f64>
    }
  return %1 : tensor<f64>
}

// -----
// TEST: call_outside_stays_after_an_equal_one_in_a_branch

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>, %p: tensor<i1>) -> (tensor<f64>, tensor<f64>) {
  // CHECK: stablehlo.if
  // CHECK: %[[A:.+]] = "callback.call"
  // CHECK-NEXT: stablehlo.return %[[A]]
  // CHECK: %[[B:.+]] = "callback.call"
  // CHECK-NEXT: stablehlo.return %[[B]]
  // CHECK: %[[C:.+]] = "callback.call"
  // CHECK-NEXT: return %{{.+}}, %[[C]]
  %0 = "stablehlo.if"(%p) ({
    %1 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }, {
    %1 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }) : (tensor<i1>) -> tensor<f64>
  %2 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %0, %2 : tensor<f64>, tensor<f64>
}

// -----
// TEST: dead_loop_that_only_computes_goes

// CHECK-NOT: callback.func
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>
  // CHECK-NEXT: return %[[X]]
  %1 = stablehlo.while(%i = %x) : tensor<f64>
    cond {
      %t = stablehlo.compare LT, %i, %x : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %2 = "callback.call"(%i) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
      stablehlo.return %2 : tensor<f64>
    }
  return %x : tensor<f64>
}

// -----
// TEST: dead_loop_with_an_effect_stays

"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> (), python = "log", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK: stablehlo.while
  // CHECK: "callback.call"(%{{.+}}) {callee = @log, kind = "io"}
  %1 = stablehlo.while(%i = %x) : tensor<f64>
    cond {
      %t = stablehlo.compare LT, %i, %x : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      "callback.call"(%i) {callee = @log, kind = "io"} : (tensor<f64>) -> ()
      stablehlo.return %i : tensor<f64>
    }
  return %x : tensor<f64>
}

// -----
// TEST: regions_that_only_compute_merge_or_go

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  // CHECK-NEXT: %[[Y:.+]] = "callback.accelerate"(%{{.+}}) {callee = @accelerate_cpu_1__f, device = "cpu:1"}
  // CHECK-NEXT: return %[[Y]], %[[Y]]
  %0 = "callback.accelerate"(%x) {callee = @accelerate_cpu_1__f, device = "cpu:1"} : (tensor<f64>) -> tensor<f64>
  %1 = "callback.accelerate"(%x) {callee = @accelerate_cpu_1__f, device = "cpu:1"} : (tensor<f64>) -> tensor<f64>
  %2 = "callback.accelerate"(%x) {callee = @accelerate_cpu_1__g, device = "cpu:1"} : (tensor<f64>) -> tensor<f64>
  return %0, %1 : tensor<f64>, tensor<f64>
}
// CHECK-LABEL: func.func private @accelerate_cpu_1__f
func.func private @accelerate_cpu_1__f(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}
// CHECK-NOT: @accelerate_cpu_1__g
func.func private @accelerate_cpu_1__g(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----
// TEST: same_region_on_two_devices_stays_twice

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  // CHECK-NEXT: "callback.accelerate"{{.*}} device = "cpu:1"
  // CHECK-NEXT: "callback.accelerate"{{.*}} device = "cpu:2"
  %0 = "callback.accelerate"(%x) {callee = @f, device = "cpu:1"} : (tensor<f64>) -> tensor<f64>
  %1 = "callback.accelerate"(%x) {callee = @f, device = "cpu:2"} : (tensor<f64>) -> tensor<f64>
  return %0, %1 : tensor<f64>, tensor<f64>
}
func.func private @f(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----
// TEST: regions_with_an_effect_stay

"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> (), python = "log", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-NEXT: "callback.accelerate"(%{{.+}}) {callee = @accelerate_cpu_1__f
  // CHECK-NEXT: "callback.accelerate"(%{{.+}}) {callee = @accelerate_cpu_1__f
  // CHECK-NEXT: return
  %0 = "callback.accelerate"(%x) {callee = @accelerate_cpu_1__f, device = "cpu:1"} : (tensor<f64>) -> tensor<f64>
  %1 = "callback.accelerate"(%x) {callee = @accelerate_cpu_1__f, device = "cpu:1"} : (tensor<f64>) -> tensor<f64>
  return %x : tensor<f64>
}
func.func private @accelerate_cpu_1__f(%x: tensor<f64>) -> tensor<f64> {
  func.call @helper(%x) : (tensor<f64>) -> ()
  return %x : tensor<f64>
}
func.func private @helper(%x: tensor<f64>) {
  "callback.call"(%x) {callee = @log, kind = "io"} : (tensor<f64>) -> ()
  return
}

// -----
// TEST: dead_circuit_stays

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-NEXT: call @circuit
  %0 = func.call @circuit(%x) : (tensor<f64>) -> tensor<f64>
  return %x : tensor<f64>
}
func.func private @circuit(%x: tensor<f64>) -> tensor<f64> {
  %s0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
  "quantum.end"(%s0) : (tensor<2xui32>) -> ()
  return %x : tensor<f64>
}

// -----
// TEST: module_of_a_dead_region_goes

// CHECK: module {
// CHECK-NEXT: func.func public @main
// CHECK-NOT: region_f
"callback.func"() {sym_name = "f_call", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "cuda:0", id = 0 : i64, module = @region_f} : () -> ()
builtin.module @region_f attributes {bellhop.device = "cuda:0"} {
  func.func public @main(%x: tensor<f64>) -> tensor<f64> {
    return %x : tensor<f64>
  }
}
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = "callback.call"(%x) {callee = @f_call, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %x : tensor<f64>
}

// -----
// TEST: constants_of_every_element_type_are_read_over

// CHECK-LABEL: func.func public @main
func.func public @main(%p: tensor<i1>) -> (tensor<complex<f64>>, tensor<2xbf16>, tensor<i4>) {
  // CHECK-NEXT: %[[A:.+]] = stablehlo.constant dense<(1.000000e+00,2.000000e+00)>
  // CHECK-NEXT: %[[B:.+]] = stablehlo.constant dense<1.000000e+00> : tensor<2xbf16>
  // CHECK-NEXT: %[[C:.+]] = stablehlo.constant dense<3> : tensor<i4>
  // CHECK-NEXT: return %[[A]], %[[B]], %[[C]]
  %a = stablehlo.constant dense<(1.0, 2.0)> : tensor<complex<f64>>
  %b = stablehlo.constant dense<1.0> : tensor<2xbf16>
  %c = stablehlo.constant dense<3> : tensor<i4>
  return %a, %b, %c : tensor<complex<f64>>, tensor<2xbf16>, tensor<i4>
}
