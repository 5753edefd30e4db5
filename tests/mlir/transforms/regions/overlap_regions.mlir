// RUN: --pass=overlap-regions

// TEST: region_behind_a_circuit_starts_before_it

// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%[[X:.+]]: tensor<f64>)
// CHECK: %[[N:.+]] = stablehlo.negate %[[X]]
// CHECK-NEXT: %[[T:.+]] = "callback.call"(%[[N]]) {callee = @region_call, kind = "start"} : (tensor<f64>) -> tensor<2xui32>
// CHECK-NEXT: %[[S0:.+]] = "quantum.begin"(%[[X]], %[[T]])
// CHECK-NEXT: %[[S1:.+]]:2 = "quantum.measure"(%[[S0]]
// CHECK-NEXT: "quantum.end"(%[[S1]]#0)
// CHECK-NEXT: %[[Y:.+]] = "callback.call"(%[[T]], %[[S1]]#0) {callee = @region_call, kind = "done"} : (tensor<2xui32>, tensor<2xui32>) -> tensor<f64>
// CHECK-NEXT: return %[[S1]]#1, %[[Y]]
"callback.func"() {sym_name = "region_call", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %d = stablehlo.constant dense<> : tensor<0xf64>
  %s0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64} : (tensor<f64>) -> tensor<2xui32>
  %s1, %e = "quantum.measure"(%s0, %d) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<0xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%s1) : (tensor<2xui32>) -> ()
  %n = stablehlo.negate %x : tensor<f64>
  %y = "callback.call"(%n) {callee = @region_call, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %e, %y : tensor<f64>, tensor<f64>
}

// -----
// TEST: region_before_a_circuit_is_waited_for_behind_it

// CHECK-LABEL: func.func public @main
// CHECK: kind = "start"
// CHECK: "quantum.begin"
// CHECK: "quantum.end"
// CHECK-NEXT: %[[Y:.+]] = "callback.call"({{.*}}kind = "done"
// CHECK-NEXT: stablehlo.sine %[[Y]]
"callback.func"() {sym_name = "region_call", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %d = stablehlo.constant dense<> : tensor<0xf64>
  %y = "callback.call"(%x) {callee = @region_call, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %z = stablehlo.sine %y : tensor<f64>
  %s0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64} : (tensor<f64>) -> tensor<2xui32>
  %s1, %e = "quantum.measure"(%s0, %d) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<0xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%s1) : (tensor<2xui32>) -> ()
  return %e, %z : tensor<f64>, tensor<f64>
}

// -----
// TEST: region_that_feeds_a_circuit_stays_whole

// CHECK-LABEL: func.func public @main
// CHECK: kind = "pure"
"callback.func"() {sym_name = "region_call", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %d = stablehlo.constant dense<> : tensor<0xf64>
  %y = "callback.call"(%x) {callee = @region_call, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %s0 = "quantum.begin"(%y) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64} : (tensor<f64>) -> tensor<2xui32>
  %s1, %e = "quantum.measure"(%s0, %d) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<0xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%s1) : (tensor<2xui32>) -> ()
  return %e : tensor<f64>
}

// -----
// TEST: region_of_a_circuits_results_stays_whole

// CHECK-LABEL: func.func public @main
// CHECK: kind = "pure"
"callback.func"() {sym_name = "region_call", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %d = stablehlo.constant dense<> : tensor<0xf64>
  %s0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64} : (tensor<f64>) -> tensor<2xui32>
  %s1, %e = "quantum.measure"(%s0, %d) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<0xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%s1) : (tensor<2xui32>) -> ()
  %y = "callback.call"(%e) {callee = @region_call, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: a_loop_of_circuits_is_like_one

// CHECK-LABEL: func.func public @main
// CHECK: %[[T:.+]] = "callback.call"({{.*}}kind = "start"
// CHECK: %[[W:.+]] = stablehlo.while
// CHECK: "quantum.begin"(%{{.+}}, %[[T]])
// CHECK: "callback.call"(%[[T]], %[[W]]) {{.*}}kind = "done"
"callback.func"() {sym_name = "region_call", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %w = stablehlo.while(%v = %x) : tensor<f64>
  cond {
    %p = stablehlo.compare LT, %v, %x : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %d = stablehlo.constant dense<> : tensor<0xf64>
    %s0 = "quantum.begin"(%v) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64} : (tensor<f64>) -> tensor<2xui32>
    %s1, %e = "quantum.measure"(%s0, %d) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<0xf64>) -> (tensor<2xui32>, tensor<f64>)
    "quantum.end"(%s1) : (tensor<2xui32>) -> ()
    stablehlo.return %e : tensor<f64>
  }
  %y = "callback.call"(%x) {callee = @region_call, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %w, %y : tensor<f64>, tensor<f64>
}

// -----
// TEST: what_has_side_effects_is_not_moved

// CHECK-LABEL: func.func public @main
// CHECK: kind = "io"
// CHECK: kind = "pure"
"callback.func"() {sym_name = "region_call", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region} : () -> ()
"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> tensor<f64>, python = "log", site = "a.py:2", id = 1 : i64} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %d = stablehlo.constant dense<> : tensor<0xf64>
  %s0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64} : (tensor<f64>) -> tensor<2xui32>
  %s1, %e = "quantum.measure"(%s0, %d) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<0xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%s1) : (tensor<2xui32>) -> ()
  %n = "callback.call"(%x) {callee = @log, kind = "io"} : (tensor<f64>) -> tensor<f64>
  %y = "callback.call"(%n) {callee = @region_call, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %e, %y : tensor<f64>, tensor<f64>
}
