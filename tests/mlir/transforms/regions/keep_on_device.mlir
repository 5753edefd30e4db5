// RUN: --pass=keep-on-device

// TEST: what_a_loop_does_not_change_goes_there_once

// CHECK: func.func public @main(%[[X:.+]]: tensor<f64>, %[[W:.+]]: tensor<8xf64>)
// CHECK: %[[T:.+]] = "callback.call"(%[[W]]) {bellhop.stays, callee = @transfer, kind = "pure"} : (tensor<8xf64>) -> tensor<2xui32>
// CHECK: %[[L:.+]]:2 = call @main_holding({{.*}}%[[T]]
// CHECK: "callback.call"(%[[T]], %{{.+}}) {callee = @{{.+}}, kind = "release"}
// CHECK-LABEL: func.func private @main_holding
// CHECK: stablehlo.while
// CHECK: "callback.call"(%{{.+}}, %{{.+}}) {bellhop.stays, callee = @region_call_0, kind = "pure"} : (tensor<2xui32>, tensor<f64>) -> tensor<f64>
"callback.func"() {sym_name = "region_call", function_type = (tensor<8xf64>, tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
func.func public @main(%x: tensor<f64>, %w: tensor<8xf64>) -> tensor<f64> {
  %l:2 = stablehlo.while(%v = %x, %u = %w) : tensor<f64>, tensor<8xf64>
  cond {
    %p = stablehlo.compare LT, %v, %x : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %y = "callback.call"(%u, %v) {callee = @region_call, kind = "pure"} : (tensor<8xf64>, tensor<f64>) -> tensor<f64>
    stablehlo.return %y, %u : tensor<f64>, tensor<8xf64>
  }
  return %l#0 : tensor<f64>
}

// -----
// TEST: a_result_that_only_a_region_takes_stays_there

// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%[[X:.+]]: tensor<f64>)
// CHECK: %[[A:.+]]:2 = "callback.call"(%[[X]]) {bellhop.stays, callee = @first_0, kind = "pure"} : (tensor<f64>) -> (tensor<f64>, tensor<2xui32>)
// CHECK-NEXT: %[[Y:.+]] = "callback.call"(%[[A]]#0) {callee = @log, kind = "io"}
// CHECK-NEXT: %[[Z:.+]] = "callback.call"(%[[A]]#1, %[[Y]]) {bellhop.stays, callee = @second_0, kind = "pure"} : (tensor<2xui32>, tensor<f64>) -> tensor<f64>
// CHECK-NEXT: "callback.call"(%[[A]]#1, %[[Z]]) {callee = @{{.+}}, kind = "release"}
// CHECK-NEXT: return %[[Z]]
"callback.func"() {sym_name = "first", function_type = (tensor<f64>) -> (tensor<8xf64>, tensor<f64>), python = "f", site = "a.py:1", id = 1 : i64, module = @region} : () -> ()
"callback.func"() {sym_name = "second", function_type = (tensor<8xf64>, tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 2 : i64, module = @region_0} : () -> ()
"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> tensor<f64>, python = "log", site = "a.py:2", id = 0 : i64} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
module @region_0 attributes {bellhop.device = "cuda:0"} {}
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %r, %a = "callback.call"(%x) {callee = @first, kind = "pure"} : (tensor<f64>) -> (tensor<8xf64>, tensor<f64>)
  %y = "callback.call"(%a) {callee = @log, kind = "io"} : (tensor<f64>) -> tensor<f64>
  %z = "callback.call"(%r, %y) {callee = @second, kind = "pure"} : (tensor<8xf64>, tensor<f64>) -> tensor<f64>
  return %z : tensor<f64>
}

// -----
// TEST: regions_of_other_devices_get_it_by_way_of_the_host

// CHECK-LABEL: func.func public @main
// CHECK-NOT: bellhop.stays
// CHECK: return
"callback.func"() {sym_name = "first", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region} : () -> ()
"callback.func"() {sym_name = "second", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 1 : i64, module = @region_0} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
module @region_0 attributes {bellhop.device = "cuda:1"} {}
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.call"(%x) {callee = @first, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %z = "callback.call"(%y) {callee = @second, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %z : tensor<f64>
}
