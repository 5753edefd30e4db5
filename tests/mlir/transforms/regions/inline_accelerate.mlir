// RUN: --pass=inline-accelerate{device=cpu:0}

// TEST: region_on_the_device_of_the_program_is_inlined

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>
  // CHECK-NEXT: %[[Y:.+]] = stablehlo.sine %[[X]]
  // CHECK-NEXT: return %[[Y]]
  // CHECK-NOT: func.func
  %y = "callback.accelerate"(%x) {callee = @accelerate_cpu_0__sin, device = "cpu:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cpu_0__sin(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: region_elsewhere_stays

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK: "callback.accelerate"(%{{.+}}) {callee = @accelerate_cpu_1__sin, device = "cpu:1"}
  %y = "callback.accelerate"(%x) {callee = @accelerate_cpu_1__sin, device = "cpu:1"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
// CHECK-LABEL: func.func private @accelerate_cpu_1__sin
func.func private @accelerate_cpu_1__sin(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: nested_regions_are_inlined

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-NEXT: %[[C:.+]] = stablehlo.cosine
  // CHECK-NEXT: %[[S:.+]] = stablehlo.sine %[[C]]
  // CHECK-NEXT: return %[[S]]
  // CHECK-NOT: func.func
  %y = "callback.accelerate"(%x) {callee = @accelerate_cpu_0__outer, device = "cpu:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cpu_0__outer(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cpu_0__inner, device = "cpu:0"} : (tensor<f64>) -> tensor<f64>
  %z = stablehlo.sine %y : tensor<f64>
  return %z : tensor<f64>
}
func.func private @accelerate_cpu_0__inner(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.cosine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: several_results_and_several_places

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>, tensor<f64>) {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>
  // CHECK-NEXT: %[[A:.+]] = stablehlo.sine %[[X]]
  // CHECK-NEXT: %[[B:.+]] = stablehlo.sine %[[A]]
  // CHECK-NEXT: %[[C:.+]] = call @helper(%[[B]])
  // CHECK-NEXT: return %[[X]], %[[B]], %[[C]]
  %y:2 = "callback.accelerate"(%x) {callee = @accelerate_cpu_0__f, device = "cpu:0"} : (tensor<f64>) -> (tensor<f64>, tensor<f64>)
  %z:2 = "callback.accelerate"(%y#1) {callee = @accelerate_cpu_0__f, device = "cpu:0"} : (tensor<f64>) -> (tensor<f64>, tensor<f64>)
  %h = func.call @helper(%z#1) : (tensor<f64>) -> tensor<f64>
  return %y#0, %z#1, %h : tensor<f64>, tensor<f64>, tensor<f64>
}
// CHECK-LABEL: func.func private @helper
func.func private @helper(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-NEXT: %[[D:.+]] = stablehlo.sine
  // CHECK-NEXT: return %[[D]]
  // CHECK-NOT: func.func
  %y:2 = "callback.accelerate"(%x) {callee = @accelerate_cpu_0__f, device = "cpu:0"} : (tensor<f64>) -> (tensor<f64>, tensor<f64>)
  return %y#1 : tensor<f64>
}
func.func private @accelerate_cpu_0__f(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %y = stablehlo.sine %x : tensor<f64>
  return %x, %y : tensor<f64>, tensor<f64>
}

// -----
// TEST: region_in_a_loop_is_inlined_there

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK: stablehlo.while
  // CHECK: do {
  // CHECK-NEXT: %[[Y:.+]] = stablehlo.sine
  // CHECK-NEXT: stablehlo.return %[[Y]]
  %r = stablehlo.while(%i = %x) : tensor<f64>
    cond {
      %t = stablehlo.compare LT, %i, %x : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %y = "callback.accelerate"(%i) {callee = @accelerate_cpu_0__sin, device = "cpu:0"} : (tensor<f64>) -> tensor<f64>
      stablehlo.return %y : tensor<f64>
    }
  return %r : tensor<f64>
}
func.func private @accelerate_cpu_0__sin(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: region_inside_a_region_elsewhere_stays

// Inlined, it would move to the other device.
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-NEXT: %[[Y:.+]] = "callback.accelerate"(%{{.+}}) {callee = @accelerate_cuda_0__outer, device = "cuda:0"}
  // CHECK-NEXT: %[[Z:.+]] = stablehlo.cosine %[[Y]]
  // CHECK-NEXT: return %[[Z]]
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__outer, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  %z = "callback.accelerate"(%y) {callee = @accelerate_cpu_0__inner, device = "cpu:0"} : (tensor<f64>) -> tensor<f64>
  return %z : tensor<f64>
}
// CHECK-LABEL: func.func private @accelerate_cuda_0__outer
func.func private @accelerate_cuda_0__outer(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-NEXT: "callback.accelerate"(%{{.+}}) {callee = @accelerate_cpu_0__inner, device = "cpu:0"}
  %y = "callback.accelerate"(%x) {callee = @accelerate_cpu_0__inner, device = "cpu:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
// CHECK-LABEL: func.func private @accelerate_cpu_0__inner
func.func private @accelerate_cpu_0__inner(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.cosine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: function_that_runs_here_and_elsewhere_keeps_its_region

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK: "callback.accelerate"(%{{.+}}) {callee = @accelerate_cuda_0__outer, device = "cuda:0"}
  // CHECK: call @shared
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__outer, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  %z = func.call @shared(%y) : (tensor<f64>) -> tensor<f64>
  return %z : tensor<f64>
}
func.func private @accelerate_cuda_0__outer(%x: tensor<f64>) -> tensor<f64> {
  %y = func.call @shared(%x) : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
// CHECK-LABEL: func.func private @shared
func.func private @shared(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-NEXT: "callback.accelerate"(%{{.+}}) {callee = @accelerate_cpu_0__inner, device = "cpu:0"}
  %y = "callback.accelerate"(%x) {callee = @accelerate_cpu_0__inner, device = "cpu:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cpu_0__inner(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.cosine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: functions_that_other_operations_name_stay

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-NEXT: %[[Y:.+]] = stablehlo.sine
  // CHECK-NEXT: stablehlo.composite "my.op" %[[Y]] {decomposition = @body}
  %y = "callback.accelerate"(%x) {callee = @accelerate_cpu_0__sin, device = "cpu:0"} : (tensor<f64>) -> tensor<f64>
  %z = stablehlo.composite "my.op" %y {decomposition = @body} : (tensor<f64>) -> tensor<f64>
  return %z : tensor<f64>
}
// CHECK-LABEL: func.func private @body
func.func private @body(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}
func.func private @accelerate_cpu_0__sin(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: recursive_region_is_refused
// REFUSED

// CHECK: callback.accelerate calls @accelerate_cpu_0__f, which calls itself
// CHECK: found before the first pass
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cpu_0__f, device = "cpu:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cpu_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = func.call @g(%x) : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @g(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cpu_0__f, device = "cpu:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
