// RUN: --pass=keep-on-device{results=1,2,3}

// TEST: the_program_returns_handles_of_what_it_may

// CHECK: module attributes {bellhop.given_results = array<i64: 1, 3>}
// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%[[T:.+]]: !stablehlo.token, %[[X:.+]]: tensor<f64>) -> (!stablehlo.token, tensor<f64>, tensor<2xui32>, tensor<f64>, tensor<2xui32>)
// CHECK-NEXT: %[[Y:.+]]:3 = "callback.call"(%[[X]]) {bellhop.stays, callee = @f_0, kind = "pure"} : (tensor<f64>) -> (tensor<f64>, tensor<2xui32>, tensor<2xui32>)
// CHECK-NEXT: return %[[T]], %[[Y]]#0, %[[Y]]#1, %[[X]], %[[Y]]#2
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
func.func public @main(%t: !stablehlo.token, %x: tensor<f64>) -> (!stablehlo.token, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) {
  %y = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %t, %y, %y, %x, %y : !stablehlo.token, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>
}

// -----
// TEST: another_region_and_the_caller_have_a_handle_each

// CHECK: module attributes {bellhop.given_results = array<i64: 1>}
// CHECK-LABEL: func.func public @main
// CHECK: %[[Y:.+]]:2 = "callback.call"(%{{.+}}) {bellhop.stays, callee = @f_0, kind = "pure"} : (tensor<f64>) -> (tensor<2xui32>, tensor<2xui32>)
// CHECK: "callback.call"(%[[Y]]#{{.}}, %{{.+}}) {callee = @{{.+}}, kind = "release"}
// CHECK: return %{{.+}}, %[[Y]]#{{.}}
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region} : () -> ()
"callback.func"() {sym_name = "g", function_type = (tensor<f64>) -> tensor<f64>, python = "g", site = "a.py:1", id = 1 : i64, module = @region_0} : () -> ()
"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> tensor<f64>, python = "log", site = "a.py:2", id = 2 : i64} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
module @region_0 attributes {bellhop.device = "cuda:0"} {}
func.func public @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) {
  %y = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  %l = "callback.call"(%x) {callee = @log, kind = "io"} : (tensor<f64>) -> tensor<f64>
  %z = "callback.call"(%y) {callee = @g, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %z, %y, %x, %l : tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>
}
