// RUN: --pass=unnest-regions

// TEST: region_around_another

// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%[[X:.+]]: tensor<f64>)
// CHECK-NEXT: %[[C:.+]] = stablehlo.constant dense<2.000000e+00>
// CHECK-NEXT: %[[A:.+]] = "callback.accelerate"(%[[X]], %[[C]]) {callee = @accelerate_cuda_0__f_0, device = "cuda:0"}
// CHECK-NEXT: %[[B:.+]] = "callback.accelerate"(%[[A]]) {callee = @accelerate_cpu_0__g, device = "cpu:0"}
// CHECK-NEXT: %[[D:.+]] = "callback.accelerate"(%[[B]], %[[A]]) {callee = @accelerate_cuda_0__f_1, device = "cuda:0"}
// CHECK-NEXT: return %[[D]]
// CHECK: func.func private @accelerate_cuda_0__f_0
// CHECK-NEXT: stablehlo.multiply
// CHECK: func.func private @accelerate_cuda_0__f_1
// CHECK-NEXT: stablehlo.cosine
// CHECK-NEXT: stablehlo.divide
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %c = stablehlo.constant dense<2.0> : tensor<f64>
  %a = stablehlo.multiply %x, %c : tensor<f64>
  %b = func.call @inner(%a) : (tensor<f64>) -> tensor<f64>
  %d = stablehlo.divide %b, %a : tensor<f64>
  return %d : tensor<f64>
}
func.func private @inner(%x: tensor<f64>) -> tensor<f64> {
  %a = "callback.accelerate"(%x) {callee = @accelerate_cpu_0__g, device = "cpu:0"} : (tensor<f64>) -> tensor<f64>
  %b = stablehlo.cosine %a : tensor<f64>
  return %b : tensor<f64>
}
func.func private @accelerate_cpu_0__g(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: loops_become_the_program_s_and_a_cheap_condition_too

// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.while
// CHECK: stablehlo.compare
// CHECK: } do {
// CHECK-NEXT: %[[A:.+]] = "callback.accelerate"(%{{.+}}) {callee = @accelerate_cuda_0__f_0, device = "cuda:0"}
// CHECK-NEXT: %[[B:.+]] = "callback.accelerate"(%[[A]]) {callee = @accelerate_cuda_1__g, device = "cuda:1"}
// CHECK-NEXT: stablehlo.return %[[B]]
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %r = stablehlo.while(%i = %x) : tensor<f64>
  cond {
    %c = stablehlo.constant dense<9.0> : tensor<f64>
    %p = stablehlo.compare LT, %i, %c : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %a = stablehlo.exponential %i : tensor<f64>
    %b = "callback.accelerate"(%a) {callee = @accelerate_cuda_1__g, device = "cuda:1"} : (tensor<f64>) -> tensor<f64>
    stablehlo.return %b : tensor<f64>
  }
  return %r : tensor<f64>
}
func.func private @accelerate_cuda_1__g(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: ordered_effects_stay_in_order

// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%[[T:.+]]: !stablehlo.token, %[[X:.+]]: tensor<f64>)
// CHECK-NEXT: %[[A:.+]]:2 = "callback.accelerate"(%[[T]], %[[X]]) {callee = @accelerate_cuda_0__f_0
// CHECK-NEXT: %[[B:.+]] = "callback.accelerate"(%[[A]]#1) {callee = @accelerate_cpu_0__g
// CHECK-NEXT: %[[U:.+]] = "callback.accelerate"(%[[A]]#0, %[[B]]) {callee = @accelerate_cuda_0__f_1
// CHECK-NEXT: return %[[U]], %[[B]]
"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> (), python = "log", site = "f.py:2", id = 0 : i64} : () -> ()
func.func public @main(%t: !stablehlo.token, %x: tensor<f64>) -> (!stablehlo.token, tensor<f64>) {
  %y:2 = "callback.accelerate"(%t, %x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (!stablehlo.token, tensor<f64>) -> (!stablehlo.token, tensor<f64>)
  return %y#0, %y#1 : !stablehlo.token, tensor<f64>
}
func.func private @accelerate_cuda_0__f(%t: !stablehlo.token, %x: tensor<f64>) -> (!stablehlo.token, tensor<f64>) {
  %a = stablehlo.sine %x : tensor<f64>
  %u = "callback.call"(%t, %a) {callee = @log, kind = "debug"} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
  %b = "callback.accelerate"(%a) {callee = @accelerate_cpu_0__g, device = "cpu:0"} : (tensor<f64>) -> tensor<f64>
  %v = "callback.call"(%u, %b) {callee = @log, kind = "debug"} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
  return %v, %b : !stablehlo.token, tensor<f64>
}
func.func private @accelerate_cpu_0__g(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: region_within_a_region_of_its_device_stays

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[Y:.+]] = "callback.accelerate"(%{{.+}}) {callee = @accelerate_cuda_0__f,
// CHECK-NEXT: return %[[Y]]
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__g, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cuda_0__g(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: circuit_and_progress_are_the_program_s

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[A:.+]] = "callback.accelerate"(%{{.+}}) {callee = @accelerate_cuda_0__f_0
// CHECK-NEXT: %[[S:.+]] = "quantum.begin"(%[[A]])
// CHECK-NEXT: "quantum.end"(%[[S]])
// CHECK-NEXT: %[[B:.+]] = "callback.accelerate"(%[[A]]) {callee = @accelerate_cuda_0__f_1
// CHECK-NEXT: %[[M:.+]] = "callback.call"(%{{.+}}) {callee = @bar, kind = "progress"}
// CHECK-NEXT: return %[[B]], %[[M]]
"callback.func"() {sym_name = "bar", function_type = (tensor<i64>, tensor<i64>) -> tensor<i64>, python = "bar", site = "f.py:2", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>, %n: tensor<i64>) -> (tensor<f64>, tensor<i64>) {
  %y:2 = "callback.accelerate"(%x, %n) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>, tensor<i64>) -> (tensor<f64>, tensor<i64>)
  return %y#0, %y#1 : tensor<f64>, tensor<i64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>, %n: tensor<i64>) -> (tensor<f64>, tensor<i64>) {
  %a = stablehlo.sine %x : tensor<f64>
  %s0 = "quantum.begin"(%a) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
  "quantum.end"(%s0) : (tensor<2xui32>) -> ()
  %b = stablehlo.cosine %a : tensor<f64>
  %m = "callback.call"(%n, %n) {callee = @bar, kind = "progress"} : (tensor<i64>, tensor<i64>) -> tensor<i64>
  return %b, %m : tensor<f64>, tensor<i64>
}

// -----
// TEST: what_a_shard_map_calls_stays

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[Y:.+]] = "callback.accelerate"(%{{.+}}) {callee = @accelerate_cuda_0__f,
// CHECK-NEXT: return %[[Y]]
sdy.mesh @mesh = <["x"=2]>
func.func public @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%a: tensor<2xf64>) {
    %b = func.call @part(%a) : (tensor<2xf64>) -> tensor<2xf64>
    sdy.return %b : tensor<2xf64>
  } : (tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}
func.func private @part(%x: tensor<2xf64>) -> tensor<2xf64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cpu_0__g, device = "cpu:0"} : (tensor<2xf64>) -> tensor<2xf64>
  return %y : tensor<2xf64>
}
func.func private @accelerate_cpu_0__g(%x: tensor<2xf64>) -> tensor<2xf64> {
  %y = stablehlo.sine %x : tensor<2xf64>
  return %y : tensor<2xf64>
}
