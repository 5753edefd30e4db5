// RUN: --pass=outline-regions --pass=inline-accelerate --pass=canonicalize-callbacks --pass=convert-accelerate-to-runtime --pass=convert-callback-to-runtime{program=7} --pass=convert-quantum-to-runtime

// TEST: program_with_callbacks_regions_and_a_circuit

// The region on cuda:0 takes its callback along; the dead call of @g is gone.
// CHECK-LABEL: module {
// CHECK-NEXT: module @region_accelerate_cuda_0__far attributes {bellhop.device = "cuda:0"} {
// CHECK-NEXT: "callback.func"() {{.*}}sym_name = "f"
// CHECK-NEXT: func.func public @main
// CHECK-NEXT: "callback.call"(%{{.+}}) {callee = @f, kind = "pure"}
// CHECK-NOT: @g
// CHECK-NOT: callback.accelerate
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> (), python = "log", site = "f.py:2", id = 1 : i64} : () -> ()
"callback.func"() {sym_name = "g", function_type = (tensor<f64>) -> tensor<f64>, python = "g", site = "f.py:3", id = 2 : i64} : () -> ()

// CHECK-LABEL: func.func public @main(%{{.+}}: !stablehlo.token
func.func public @main(%t: !stablehlo.token, %x: tensor<f64>) -> (!stablehlo.token, tensor<f64>) {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>, %[[T:.+]]: tensor<2xui32> {bellhop.table}
  // CHECK: %[[T1:.+]] = stablehlo.custom_call @bellhop_callback(%[[T]], %{{.+}}, %[[X]]) {{.*}}index = 1 : i64, program = 7 : i64
  // CHECK: %[[A:.+]] = stablehlo.custom_call @bellhop_callback(%[[T]], %[[X]]) {{.*}}index = 0 : i64
  // CHECK: %[[B:.+]] = stablehlo.add %[[A]], %[[A]]
  // CHECK: %[[C:.+]] = stablehlo.custom_call @bellhop_callback(%[[T]], %[[B]]) {{.*}}index = 2 : i64
  // CHECK: %[[D:.+]] = call @circuit(%[[C]])
  // CHECK: return %[[T1]], %[[D]]
  %t1 = "callback.call"(%t, %x) {callee = @log, kind = "debug"} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
  %a = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %near = func.call @accelerate_cpu_0__near(%x) : (tensor<f64>) -> tensor<f64>
  %b = stablehlo.add %a, %near : tensor<f64>
  %dead = "callback.call"(%b) {callee = @g, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %far = func.call @accelerate_cuda_0__far(%b) : (tensor<f64>) -> tensor<f64>
  %c = func.call @circuit(%far) : (tensor<f64>) -> tensor<f64>
  return %t1, %c : !stablehlo.token, tensor<f64>
}
func.func private @accelerate_cpu_0__near(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cuda_0__far(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
// CHECK-LABEL: func.func private @circuit
func.func private @circuit(%x: tensor<f64>) -> tensor<f64> {
  // CHECK: %[[S0:.+]] = stablehlo.custom_call @bellhop_circuit_begin
  // CHECK: %[[S1:.+]] = stablehlo.custom_call @bellhop_circuit_gates(%[[S0]], {{.*}}names = "RX\0ACNOT"
  // CHECK: %[[V:.+]]:2 = stablehlo.custom_call @bellhop_circuit_measure(%[[S1]],
  // CHECK: stablehlo.custom_call @bellhop_circuit_end(%[[V]]#0)
  // CHECK: return %[[V]]#1
  %p = stablehlo.reshape %x : (tensor<f64>) -> tensor<1xf64>
  %o = stablehlo.constant dense<0> : tensor<i32>
  %w = stablehlo.constant dense<> : tensor<0xi32>
  %d = stablehlo.constant dense<> : tensor<0xf64>
  %s0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 2 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
  %s2 = "quantum.gates"(%s0, %p, %o, %w) {names = "RX\0ACNOT", code = array<i64: 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 2, 0, 0, 1>, constants = array<f64>} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
  %s3, %v = "quantum.measure"(%s2, %d) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<0xf64>) -> (tensor<2xui32>, tensor<f64>)
  "quantum.end"(%s3) : (tensor<2xui32>) -> ()
  return %v : tensor<f64>
}
