// RUN: --pass=convert-accelerate-to-runtime{first_id=5}

// TEST: region_becomes_a_module_and_a_call

// CHECK: "callback.func"() {function_type = (tensor<f64>) -> tensor<f64>, id = 5 : i64, module = @region_accelerate_cuda_0__f, python = "f", site = "model.py:7", sym_name = "accelerate_cuda_0__f_call"}
// CHECK: module @region_accelerate_cuda_0__f attributes {bellhop.device = "cuda:0"} {
// CHECK-NEXT: func.func public @main(%[[A:.+]]: tensor<f64>)
// CHECK-NEXT: %[[S:.+]] = stablehlo.sine %[[A]]
// CHECK-NEXT: return %[[S]]
// CHECK: func.func public @main(%[[X:.+]]: tensor<f64>)
// CHECK-NEXT: %[[Y:.+]] = "callback.call"(%[[X]]) {callee = @accelerate_cuda_0__f_call, kind = "pure"} : (tensor<f64>) -> tensor<f64>
// CHECK-NEXT: return %[[Y]]
// CHECK-NOT: func.func
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64> loc("jit(f)"("model.py":7:3))
  return %y : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: region_that_runs_in_several_places_becomes_one_module

// CHECK-COUNT-1: module @region_
// CHECK-LABEL: func.func public @main(%{{.+}}: tensor<f64>, %{{.+}}: tensor<i1>)
func.func public @main(%x: tensor<f64>, %p: tensor<i1>) -> tensor<f64> {
  // CHECK: "callback.call"(%{{.+}}) {callee = @accelerate_cuda_0__f_call
  // CHECK: call @helper
  %y = "stablehlo.if"(%p) ({
    %a = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
    stablehlo.return %a : tensor<f64>
  }, {
    stablehlo.return %x : tensor<f64>
  }) : (tensor<i1>) -> tensor<f64>
  %z = func.call @helper(%y) : (tensor<f64>) -> tensor<f64>
  return %z : tensor<f64>
}
// CHECK-LABEL: func.func private @helper
func.func private @helper(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-NEXT: "callback.call"(%{{.+}}) {callee = @accelerate_cuda_0__f_call
  // CHECK-NOT: module
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: module_takes_what_the_region_calls_along

// CHECK: module @region_accelerate_cuda_0__f
// CHECK: "callback.func"() {{.*}}id = 7 : i64{{.*}}sym_name = "used"
// CHECK-NOT: sym_name = "unused"
// CHECK: func.func public @main
// CHECK: call @helper
// CHECK: func.func private @helper
// CHECK: "callback.call"(%{{.+}}) {callee = @used, kind = "pure"}
// CHECK: sym_name = "used"
// CHECK: sym_name = "unused"
// CHECK: func.func public @main
// CHECK-NOT: func.func
"callback.func"() {sym_name = "used", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 7 : i64} : () -> ()
"callback.func"() {sym_name = "unused", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 3 : i64} : () -> ()
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = func.call @helper(%x) : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @helper(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.call"(%x) {callee = @used, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: region_of_the_same_device_is_left_to_that

// CHECK: module @region_accelerate_cuda_0__outer
// CHECK-NEXT: func.func private @accelerate_cuda_0__inner
// CHECK: func.func public @main
// CHECK-NEXT: "callback.accelerate"(%{{.+}}) {callee = @accelerate_cuda_0__inner, device = "cuda:0"}
// CHECK: func.func public @main
// CHECK-NEXT: "callback.call"(%{{.+}}) {callee = @accelerate_cuda_0__outer_call
// CHECK-NOT: func.func
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__outer, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cuda_0__outer(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__inner, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cuda_0__inner(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: function_shared_with_a_region_is_converted_here_only

// CHECK: module @region_accelerate_cuda_0__outer
// CHECK: func.func public @main
// CHECK-NEXT: call @shared
// CHECK: func.func private @shared
// CHECK-NEXT: "callback.accelerate"(%{{.+}}) {callee = @accelerate_cuda_0__inner, device = "cuda:0"}
// CHECK: func.func public @main
// CHECK-NEXT: "callback.call"(%{{.+}}) {callee = @accelerate_cuda_0__outer_call
// CHECK-NEXT: call @shared
// CHECK: func.func private @shared
// CHECK-NEXT: "callback.call"(%{{.+}}) {callee = @accelerate_cuda_0__inner_call
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__outer, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  %z = func.call @shared(%y) : (tensor<f64>) -> tensor<f64>
  return %z : tensor<f64>
}
func.func private @accelerate_cuda_0__outer(%x: tensor<f64>) -> tensor<f64> {
  %y = func.call @shared(%x) : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @shared(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__inner, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cuda_0__inner(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: symbols_that_are_taken_are_not_used_again

// CHECK: module = @region_f_0{{.*}}sym_name = "f_call_0"
// CHECK: module @region_f_0
// CHECK-LABEL: func.func public @main(%{{.+}}: tensor<f64>) -> (tensor<f64>, tensor<f64>, tensor<f64>)
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>, tensor<f64>) {
  // CHECK: "callback.call"(%{{.+}}) {callee = @f_call_0
  %0 = "callback.accelerate"(%x) {callee = @f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  %1 = func.call @f_call(%x) : (tensor<f64>) -> tensor<f64>
  %2 = func.call @region_f(%x) : (tensor<f64>) -> tensor<f64>
  return %0, %1, %2 : tensor<f64>, tensor<f64>, tensor<f64>
}
func.func private @f(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}
func.func private @f_call(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}
func.func private @region_f(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----
// TEST: one_function_on_two_devices_becomes_two_modules

// CHECK-DAG: module @region_f attributes {bellhop.device = "cuda:0"}
// CHECK-DAG: module @region_f_0 attributes {bellhop.device = "cuda:1"}
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = "callback.accelerate"(%x) {callee = @f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  %1 = "callback.accelerate"(%0) {callee = @f, device = "cuda:1"} : (tensor<f64>) -> tensor<f64>
  return %1 : tensor<f64>
}
func.func private @f(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----
// TEST: call_of_a_region_with_an_effect_has_one_too

"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> (), python = "log", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK: "callback.call"(%{{.+}}) {callee = @f_call, kind = "io"}
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = "callback.accelerate"(%x) {callee = @f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %0 : tensor<f64>
}
func.func private @f(%x: tensor<f64>) -> tensor<f64> {
  "callback.call"(%x) {callee = @log, kind = "io"} : (tensor<f64>) -> ()
  return %x : tensor<f64>
}

// -----
// TEST: module_without_regions_stays

// CHECK: func.func public @main
// CHECK-NEXT: stablehlo.sine
// CHECK: func.func private @unused
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}
func.func private @unused(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----
// TEST: region_with_ordered_effects_is_an_ordered_call_and_makes_its_own_token

// CHECK: "callback.func"() {function_type = (tensor<f64>) -> tensor<f64>
// CHECK-SAME: sym_name = "accelerate_cuda_0__f_call"
// CHECK: module @region_accelerate_cuda_0__f
// CHECK: func.func public @main(%[[V:.+]]: tensor<f64>) -> tensor<f64>
// CHECK-NEXT: %[[T0:.+]] = stablehlo.create_token
// CHECK-NEXT: %{{.+}} = "callback.call"(%[[T0]], %[[V]]) {callee = @log, kind = "debug"}
// CHECK-NEXT: return %[[V]] : tensor<f64>
// CHECK: func.func public @main(%[[T:.+]]: !stablehlo.token, %[[X:.+]]: tensor<f64>)
// CHECK-NEXT: %[[Y:.+]]:2 = "callback.call"(%[[T]], %[[X]]) {callee = @accelerate_cuda_0__f_call, kind = "io"}
// CHECK-NEXT: return %[[Y]]#0, %[[Y]]#1
"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> (), python = "log", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%t: !stablehlo.token, %x: tensor<f64>) -> (!stablehlo.token, tensor<f64>) {
  %y:2 = "callback.accelerate"(%t, %x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (!stablehlo.token, tensor<f64>) -> (!stablehlo.token, tensor<f64>)
  return %y#0, %y#1 : !stablehlo.token, tensor<f64>
}
func.func private @accelerate_cuda_0__f(%t: !stablehlo.token, %x: tensor<f64>) -> (!stablehlo.token, tensor<f64>) {
  %u = "callback.call"(%t, %x) {callee = @log, kind = "debug"} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
  return %u, %x : !stablehlo.token, tensor<f64>
}

// -----
// TEST: effects_of_several_orders_in_a_region_are_refused
// REFUSED

// CHECK: the region @accelerate_cuda_0__f on cuda:0 has effects of several orders, bellhop's and JAX's own, which only the program's own device can run. Use bellhop's callbacks for all of them.
// CHECK: raised by the pass convert-accelerate-to-runtime
func.func public @main(%t: !stablehlo.token, %u: !stablehlo.token) -> (!stablehlo.token, !stablehlo.token) {
  %y:2 = "callback.accelerate"(%t, %u) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (!stablehlo.token, !stablehlo.token) -> (!stablehlo.token, !stablehlo.token)
  return %y#0, %y#1 : !stablehlo.token, !stablehlo.token
}
func.func private @accelerate_cuda_0__f(%t: !stablehlo.token, %u: !stablehlo.token) -> (!stablehlo.token, !stablehlo.token) {
  return %t, %u : !stablehlo.token, !stablehlo.token
}

// -----
// TEST: circuit_in_a_region_is_refused
// REFUSED

// CHECK: the region @accelerate_cuda_0__f on cuda:0 runs a circuit on a quantum device, which only the program's own device can do. Move the QNode out of the jax.shard_map in the accelerated function.
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = func.call @circuit(%x) : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @circuit(%x: tensor<f64>) -> tensor<f64> {
  %s0 = "quantum.begin"(%x) {name = "c", site = "f.py:9", library = "l", factory = "F", kwargs = "{}", qubits = 1 : i64, shots = 0 : i64, record = 0 : i64, tree = 0 : i64, seeded = 0 : i64, rows = 0 : i64, engine = 1 : i64, precision = 64 : i64} : (tensor<f64>) -> tensor<2xui32>
  "quantum.end"(%s0) : (tensor<2xui32>) -> ()
  return %x : tensor<f64>
}

// -----
// TEST: region_that_was_left_in_a_region_is_refused
// REFUSED

// CHECK: the region @accelerate_cuda_0__f on cuda:0 contains a region on cpu:0 inside of a jax.shard_map, which is not supported: each device would run it. Move the inner region out of the jax.shard_map.
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cpu_0__g, device = "cpu:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cpu_0__g(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----
// TEST: a_mesh_moves_with_the_region

// CHECK-LABEL: module
// CHECK-NOT: sdy.mesh
// CHECK: module @region_accelerate_sharding_1__f
// CHECK: sdy.mesh @mesh
// CHECK-NOT: sdy.mesh
// CHECK: sdy.sharding_constraint %{{.+}} <@mesh, [{"x"}]>
// CHECK: func.func public @main
sdy.mesh @mesh = <["x"=2]>
sdy.mesh @unused = <["y"=2]>
func.func public @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_sharding_1__f, device = "sharding:1"} : (tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}
func.func private @accelerate_sharding_1__f(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = sdy.sharding_constraint %x <@mesh, [{"x"}]> : tensor<4xf64>
  return %y : tensor<4xf64>
}
