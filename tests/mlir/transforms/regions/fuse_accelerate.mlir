// RUN: --pass=fuse-accelerate

// TEST: chain_with_glue_becomes_one_region

// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%[[X:.+]]: tensor<f64>, %[[Y:.+]]: tensor<f64>)
// CHECK-NEXT: %[[R:.+]] = "callback.accelerate"(%[[X]], %[[Y]]) {callee = @fused__f_0, device = "cuda:0"} : (tensor<f64>, tensor<f64>) -> tensor<f64>
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @fused__f_0(%[[A:.+]]: tensor<f64>, %[[B:.+]]: tensor<f64>) -> tensor<f64>
// CHECK-NEXT: %[[F:.+]] = call @accelerate_cuda_0__f(%[[A]])
// CHECK-NEXT: %[[M:.+]] = stablehlo.multiply %[[F]], %[[B]]
// CHECK-NEXT: %[[G:.+]] = call @accelerate_cuda_0__g(%[[M]])
// CHECK-NEXT: %[[N:.+]] = stablehlo.negate %[[G]]
// CHECK-NEXT: %[[H:.+]] = call @accelerate_cuda_0__f(%[[N]])
// CHECK-NEXT: return %[[H]]
func.func public @main(%x: tensor<f64>, %y: tensor<f64>) -> tensor<f64> {
  %a = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  %b = stablehlo.multiply %a, %y : tensor<f64>
  %c = "callback.accelerate"(%b) {callee = @accelerate_cuda_0__g, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  %d = stablehlo.negate %c : tensor<f64>
  %e = "callback.accelerate"(%d) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %e : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cuda_0__g(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.cosine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: what_is_used_outside_becomes_a_result

// CHECK-LABEL: func.func public @main
// CHECK: %[[R:.+]]:3 = "callback.accelerate"(%{{.+}}) {callee = @fused__f
// CHECK-NEXT: %[[S:.+]] = stablehlo.subtract %[[R]]#0, %[[R]]#1
// CHECK-NEXT: return %[[S]], %[[R]]#2
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %a = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  %b = stablehlo.negate %a : tensor<f64>
  %s = stablehlo.subtract %a, %b : tensor<f64>
  %c = "callback.accelerate"(%b) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %s, %c : tensor<f64>, tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: independent_regions_share_a_call

// CHECK-LABEL: func.func public @main
// CHECK-COUNT-1: callback.accelerate
// CHECK-NOT: callback.accelerate
func.func public @main(%x: tensor<f64>, %y: tensor<f64>) -> tensor<f64> {
  %a = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  %b = "callback.accelerate"(%y) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  %s = stablehlo.add %a, %b : tensor<f64>
  return %s : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: regions_of_two_devices_stay_apart

// CHECK-LABEL: func.func public @main
// CHECK: device = "cuda:0"
// CHECK-NEXT: device = "cuda:1"
// CHECK-NEXT: device = "cuda:0"
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %a = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  %b = "callback.accelerate"(%a) {callee = @accelerate_cuda_0__f, device = "cuda:1"} : (tensor<f64>) -> tensor<f64>
  %c = "callback.accelerate"(%b) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %c : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: expensive_operation_between_stays_where_it_is

// CHECK-LABEL: func.func public @main
// CHECK: "callback.accelerate"
// CHECK-NEXT: stablehlo.dot_general
// CHECK-NEXT: "callback.accelerate"
func.func public @main(%x: tensor<2x2xf64>) -> tensor<2x2xf64> {
  %a = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<2x2xf64>) -> tensor<2x2xf64>
  %b = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>
  %c = "callback.accelerate"(%b) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<2x2xf64>) -> tensor<2x2xf64>
  return %c : tensor<2x2xf64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<2x2xf64>) -> tensor<2x2xf64> {
  %y = stablehlo.sine %x : tensor<2x2xf64>
  return %y : tensor<2x2xf64>
}

// -----
// TEST: a_callback_between_stays_where_it_is

// CHECK-LABEL: func.func public @main
// CHECK: "callback.accelerate"
// CHECK-NEXT: "callback.call"
// CHECK-NEXT: "callback.accelerate"
"callback.func"() {sym_name = "g", function_type = (tensor<f64>) -> tensor<f64>, python = "g", site = "a.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %a = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  %b = "callback.call"(%a) {callee = @g, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %c = "callback.accelerate"(%b) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %c : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: nothing_heavy_has_to_wait_for_more_than_before

// CHECK-LABEL: func.func public @main
// CHECK: "callback.accelerate"
// CHECK-NEXT: "callback.call"
// CHECK-NEXT: "callback.accelerate"
"callback.func"() {sym_name = "g", function_type = (tensor<f64>) -> tensor<f64>, python = "g", site = "a.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %a = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  %b = "callback.call"(%a) {callee = @g, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %c = "callback.accelerate"(%a) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %b, %c : tensor<f64>, tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: a_region_with_side_effects_stays_on_its_own

// CHECK-LABEL: func.func public @main
// CHECK-COUNT-2: callback.accelerate
"callback.func"() {sym_name = "g", function_type = (tensor<f64>) -> tensor<f64>, python = "g", site = "a.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %a = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  %b = "callback.accelerate"(%a) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %b : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.call"(%x) {callee = @g, kind = "io"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: a_loop_around_one_region_goes_to_the_device

// CHECK-LABEL: func.func public @main
// CHECK-NOT: stablehlo.while
// CHECK: %[[R:.+]]:2 = "callback.accelerate"(%{{.+}}, %{{.+}}, %{{.+}}) {callee = @fused__f, device = "cuda:0"} : (tensor<i64>, tensor<f64>, tensor<f64>) -> (tensor<i64>, tensor<f64>)
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1
// CHECK: func.func private @fused__f
// CHECK: stablehlo.while
// CHECK: func.call @accelerate_cuda_0__f
func.func public @main(%n: tensor<i64>, %x: tensor<f64>, %y: tensor<f64>) -> (tensor<i64>, tensor<f64>) {
  %r:2 = stablehlo.while(%i = %n, %v = %x) : tensor<i64>, tensor<f64>
  cond {
    %end = stablehlo.constant dense<9> : tensor<i64>
    %p = stablehlo.compare LT, %i, %end : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i64>
    %j = stablehlo.add %i, %one : tensor<i64>
    %a = func.call @body(%v) : (tensor<f64>) -> tensor<f64>
    %b = stablehlo.multiply %a, %y : tensor<f64>
    stablehlo.return %j, %b : tensor<i64>, tensor<f64>
  }
  return %r#0, %r#1 : tensor<i64>, tensor<f64>
}
func.func private @body(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: a_loop_that_also_does_other_things_stays

// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.while
// CHECK: "callback.accelerate"
// CHECK: "callback.call"
"callback.func"() {sym_name = "g", function_type = (tensor<f64>) -> tensor<f64>, python = "g", site = "a.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %r = stablehlo.while(%v = %x) : tensor<f64>
  cond {
    %p = stablehlo.compare LT, %v, %x : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %a = "callback.accelerate"(%v) {callee = @accelerate_cuda_0__f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
    %b = "callback.call"(%a) {callee = @g, kind = "pure"} : (tensor<f64>) -> tensor<f64>
    stablehlo.return %b : tensor<f64>
  }
  return %r : tensor<f64>
}
func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  return %y : tensor<f64>
}
