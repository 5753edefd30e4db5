// RUN: --pass=overlap-calls

// TEST: region_behind_a_circuit_starts_before_it

// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%[[X:.+]]: tensor<f64>)
// CHECK: %[[N:.+]] = stablehlo.negate %[[X]]
// CHECK-NEXT: %[[T:.+]] = "callback.call"(%[[N]]) {callee = @region_call, kind = "start"} : (tensor<f64>) -> tensor<2xui32>
// CHECK-NEXT: %[[B:.+]]:2 = call @main_beside(%[[X]], %[[T]]) {mhlo.frontend_attributes = {inlineable = "false"}}
// CHECK-NEXT: %[[Y:.+]] = "callback.call"(%[[B]]#0) {callee = @region_call, kind = "done"} : (tensor<2xui32>) -> tensor<f64>
// CHECK-NEXT: return %[[B]]#1, %[[Y]]
// CHECK-LABEL: func.func private @main_beside
// CHECK: %[[S0:.+]] = "quantum.begin"
// CHECK-NEXT: %[[S1:.+]]:2 = "quantum.measure"(%[[S0]]
// CHECK-NEXT: "quantum.end"(%[[S1]]#0)
// CHECK: return %{{.+}}, %[[S1]]#1
"callback.func"() {sym_name = "region_call", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %d = stablehlo.constant dense<> : tensor<0xf64>
  %s0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
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
// CHECK: call @main_beside
// CHECK-NEXT: %[[Y:.+]] = "callback.call"({{.*}}kind = "done"
// CHECK-NEXT: stablehlo.sine %[[Y]]
"callback.func"() {sym_name = "region_call", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %d = stablehlo.constant dense<> : tensor<0xf64>
  %y = "callback.call"(%x) {callee = @region_call, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %z = stablehlo.sine %y : tensor<f64>
  %s0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
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
  %s0 = "quantum.begin"(%y) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
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
  %s0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
  %s1, %e = "quantum.measure"(%s0, %d) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<0xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%s1) : (tensor<2xui32>) -> ()
  %y = "callback.call"(%e) {callee = @region_call, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: a_loop_of_circuits_is_like_one

// CHECK-LABEL: func.func public @main
// CHECK: %[[T:.+]] = "callback.call"({{.*}}kind = "start"
// CHECK: %[[W:.+]]:2 = call @main_beside({{.*}}%[[T]])
// CHECK: "callback.call"(%[[W]]#0) {{.*}}kind = "done"
// CHECK-LABEL: func.func private @main_beside
// CHECK: stablehlo.while
// CHECK: "quantum.begin"
"callback.func"() {sym_name = "region_call", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %w = stablehlo.while(%v = %x) : tensor<f64>
  cond {
    %p = stablehlo.compare LT, %v, %x : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %d = stablehlo.constant dense<> : tensor<0xf64>
    %s0 = "quantum.begin"(%v) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
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
  %s0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
  %s1, %e = "quantum.measure"(%s0, %d) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<0xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%s1) : (tensor<2xui32>) -> ()
  %n = "callback.call"(%x) {callee = @log, kind = "io"} : (tensor<f64>) -> tensor<f64>
  %y = "callback.call"(%n) {callee = @region_call, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %e, %y : tensor<f64>, tensor<f64>
}

// -----
// TEST: regions_of_two_devices_run_at_once

// CHECK-LABEL: func.func public @main
// CHECK: %[[S:.+]] = "callback.call"({{.*}}callee = @near, kind = "start"
// CHECK-NEXT: %[[T:.+]] = "callback.call"({{.*}}callee = @far, kind = "start"
// CHECK-NEXT: %[[A:.+]] = "callback.call"(%[[S]], %[[T]]) {callee = @near, kind = "done"}
// CHECK-NEXT: %[[B:.+]] = "callback.call"(%[[T]], %[[A]]) {callee = @far, kind = "done"}
"callback.func"() {sym_name = "near", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region_0} : () -> ()
"callback.func"() {sym_name = "far", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 1 : i64, module = @region_1} : () -> ()
module @region_0 attributes {bellhop.device = "cuda:0"} {}
module @region_1 attributes {bellhop.device = "cuda:1"} {}
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %a = "callback.call"(%x) {callee = @near, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %b = "callback.call"(%x) {callee = @far, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %c = stablehlo.add %a, %b : tensor<f64>
  return %c : tensor<f64>
}

// -----
// TEST: what_a_start_needs_comes_before_what_else_takes_long

// CHECK-LABEL: func.func public @main
// CHECK: %[[T:.+]] = "callback.call"({{.*}}callee = @near, kind = "start"
// CHECK: %[[P:.+]]:2 = call @main_beside{{.*}}(%{{.+}}, %[[T]])
// CHECK-NEXT: %[[S:.+]] = "callback.call"(%[[P]]#0) {callee = @far, kind = "start"}
// CHECK-NEXT: %[[Q:.+]]:3 = call @main_beside{{.*}}(%{{.+}}, %[[P]]#1, %[[S]])
// CHECK-NEXT: "callback.call"(%[[Q]]#0, %[[Q]]#1) {callee = @near, kind = "done"}
// CHECK-NEXT: "callback.call"(%[[Q]]#1, {{.*}}) {callee = @far, kind = "done"}
// CHECK-LABEL: func.func private @main_beside
// CHECK-SAME: (%{{.+}}: tensor<200x200xf64>, %{{.+}}: tensor<2xui32>, %{{.+}}: tensor<2xui32>)
// CHECK: stablehlo.subtract
"callback.func"() {sym_name = "near", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region_0} : () -> ()
"callback.func"() {sym_name = "far", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 1 : i64, module = @region_1} : () -> ()
module @region_0 attributes {bellhop.device = "cuda:0"} {}
module @region_1 attributes {bellhop.device = "cuda:1"} {}
func.func public @main(%x: tensor<f64>, %m: tensor<200x200xf64>) -> (tensor<f64>, tensor<200x200xf64>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %n = stablehlo.subtract %m, %m : tensor<200x200xf64>
  %o = stablehlo.dot_general %n, %n, contracting_dims = [1] x [0] : (tensor<200x200xf64>, tensor<200x200xf64>) -> tensor<200x200xf64>
  %p = stablehlo.dot_general %m, %m, contracting_dims = [1] x [0] : (tensor<200x200xf64>, tensor<200x200xf64>) -> tensor<200x200xf64>
  %q = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<200x200xf64>, tensor<f64>) -> tensor<f64>
  %b = "callback.call"(%q) {callee = @far, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %a = "callback.call"(%x) {callee = @near, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %c = stablehlo.add %a, %b : tensor<f64>
  return %c, %o : tensor<f64>, tensor<200x200xf64>
}

// -----
// TEST: what_takes_no_time_is_not_done_beside_a_region

// CHECK-LABEL: func.func public @main
// CHECK-NOT: kind = "start"
// CHECK: return
"callback.func"() {sym_name = "near", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region_0} : () -> ()
"callback.func"() {sym_name = "far", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 1 : i64, module = @region_1} : () -> ()
module @region_0 attributes {bellhop.device = "cuda:0"} {}
module @region_1 attributes {bellhop.device = "cuda:1"} {}
func.func public @main(%x: tensor<f64>, %m: tensor<2x2xf64>) -> (tensor<f64>, tensor<2x2xf64>) {
  %a = "callback.call"(%x) {callee = @near, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %o = stablehlo.dot_general %m, %m, contracting_dims = [1] x [0] : (tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>
  return %a, %o : tensor<f64>, tensor<2x2xf64>
}

// -----
// TEST: a_region_that_takes_no_time_stays_whole

// CHECK-LABEL: func.func public @main
// CHECK-NOT: kind = "start"
// CHECK: return
"callback.func"() {sym_name = "near", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region_0} : () -> ()
module @region_0 attributes {bellhop.device = "cuda:0"} {
  func.func public @main(%x: tensor<f64>) -> tensor<f64> {
    %y = stablehlo.sine %x : tensor<f64>
    return %y : tensor<f64>
  }
}
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 1 : i64} : () -> ()
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %a = "callback.call"(%x) {callee = @near, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %b = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %a, %b : tensor<f64>, tensor<f64>
}

// -----
// TEST: regions_in_the_body_of_a_loop_and_behind_a_function_overlap

// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.while
// CHECK: callee = @near, kind = "start"
// CHECK: callee = @far, kind = "start"
// CHECK: callee = @near, kind = "done"
// CHECK: callee = @far, kind = "done"
// CHECK: stablehlo.return
"callback.func"() {sym_name = "near", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region_0} : () -> ()
"callback.func"() {sym_name = "far", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 1 : i64, module = @region_1} : () -> ()
module @region_0 attributes {bellhop.device = "cuda:0"} {}
module @region_1 attributes {bellhop.device = "cuda:1"} {}
func.func private @body(%x: tensor<f64>) -> tensor<f64> {
  %a = "callback.call"(%x) {callee = @near, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %a : tensor<f64>
}
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %w = stablehlo.while(%v = %x) : tensor<f64>
  cond {
    %p = stablehlo.compare LT, %v, %x : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %a = func.call @body(%v) : (tensor<f64>) -> tensor<f64>
    %b = "callback.call"(%v) {callee = @far, kind = "pure"} : (tensor<f64>) -> tensor<f64>
    %c = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %c : tensor<f64>
  }
  return %w : tensor<f64>
}

// -----
// TEST: effects_beside_a_region_keep_their_order_and_the_tokens

// CHECK-LABEL: func.func public @main
// CHECK: kind = "start"
// CHECK-NEXT: call @main_beside({{.*}}) {{.*}}!stablehlo.token
// CHECK-NEXT: kind = "done"
// CHECK-LABEL: func.func private @main_beside
// CHECK: callee = @log, kind = "io"
// CHECK: callee = @log, kind = "io"
"callback.func"() {sym_name = "near", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region_0} : () -> ()
module @region_0 attributes {bellhop.device = "cuda:0"} {}
"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 1 : i64} : () -> ()
func.func public @main(%t: !stablehlo.token, %x: tensor<f64>) -> (!stablehlo.token, tensor<f64>) {
  %t1, %y = "callback.call"(%t, %x) {callee = @log, kind = "io"} : (!stablehlo.token, tensor<f64>) -> (!stablehlo.token, tensor<f64>)
  %a = "callback.call"(%x) {callee = @near, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %t2, %z = "callback.call"(%t1, %y) {callee = @log, kind = "io"} : (!stablehlo.token, tensor<f64>) -> (!stablehlo.token, tensor<f64>)
  %c = stablehlo.add %a, %z : tensor<f64>
  return %t2, %c : !stablehlo.token, tensor<f64>
}
