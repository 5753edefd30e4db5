// RUN: --pass=take-arguments

// TEST: arguments_of_the_program_are_taken_where_they_lie

// CHECK: module attributes {bellhop.takes_arguments}
// CHECK: "callback.func"() {{.*}}function_type = (tensor<2xui32>, tensor<f64>) -> tensor<f64>{{.*}}held = array<i64: 0>
// CHECK: func.func public @main(%[[W:.+]]: tensor<8xf64>, %[[X:.+]]: tensor<f64>)
// CHECK: %[[H:.+]] = stablehlo.constant dense<[0, 2147483648]> : tensor<2xui32>
// CHECK: %[[Y:.+]] = stablehlo.sine %[[X]]
// CHECK: "callback.call"(%[[H]], %[[Y]]) {callee = @region_call_0, kind = "pure"} : (tensor<2xui32>, tensor<f64>) -> tensor<f64>
"callback.func"() {sym_name = "region_call", function_type = (tensor<8xf64>, tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
func.func public @main(%w: tensor<8xf64>, %x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.sine %x : tensor<f64>
  %z = "callback.call"(%w, %y) {callee = @region_call, kind = "pure"} : (tensor<8xf64>, tensor<f64>) -> tensor<f64>
  return %z : tensor<f64>
}

// -----
// TEST: an_ordered_region_takes_its_token_besides

// CHECK: held = array<i64: 0>
// CHECK: func.func public @main(%[[T:.+]]: !stablehlo.token, %[[X:.+]]: tensor<f64>)
// CHECK: %[[H:.+]] = stablehlo.constant dense<[0, 2147483648]> : tensor<2xui32>
// CHECK: "callback.call"(%[[T]], %[[H]]) {callee = @region_call_0, kind = "io"}
"callback.func"() {sym_name = "region_call", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
func.func public @main(%t: !stablehlo.token, %x: tensor<f64>) -> tensor<f64> {
  %s, %y = "callback.call"(%t, %x) {callee = @region_call, kind = "io"} : (!stablehlo.token, tensor<f64>) -> (!stablehlo.token, tensor<f64>)
  return %y : tensor<f64>
}

// -----
// TEST: what_a_run_keeps_stays_so

// CHECK: held = array<i64: 0, 1>
// CHECK: %[[H:.+]] = stablehlo.constant dense<[0, 2147483648]> : tensor<2xui32>
// CHECK: %[[K:.+]] = stablehlo.add
// CHECK: "callback.call"(%[[H]], %[[K]]) {bellhop.stays, callee = @region_call_0, kind = "pure"}
"callback.func"() {sym_name = "region_call", function_type = (tensor<f64>, tensor<2xui32>) -> tensor<f64>, python = "f", site = "a.py:1", id = 0 : i64, module = @region, held = array<i64: 1>, fetched = array<i64: 0>, kept = array<i64>} : () -> ()
module @region attributes {bellhop.device = "cuda:0"} {}
func.func public @main(%x: tensor<f64>, %h: tensor<2xui32>) -> tensor<f64> {
  %k = stablehlo.add %h, %h : tensor<2xui32>
  %y = "callback.call"(%x, %k) {bellhop.stays, callee = @region_call, kind = "pure"} : (tensor<f64>, tensor<2xui32>) -> tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: what_takes_no_argument_is_left_alone

// CHECK-NOT: bellhop.takes_arguments
// CHECK: "callback.call"(%{{.+}}) {callee = @log, kind = "io"}
"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> tensor<f64>, python = "log", site = "a.py:2", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.call"(%x) {callee = @log, kind = "io"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
