// RUN: --pass=convert-callback-to-runtime{program=7}

// TEST: call_becomes_custom_call_and_takes_the_table

// CHECK-NOT: callback.func
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 4 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>, %[[T:.+]]: tensor<2xui32> {bellhop.table}
  // CHECK-NEXT: %[[Y:.+]] = stablehlo.custom_call @bellhop_callback(%[[T]], %[[X]])
  // CHECK-SAME: api_version = 4 : i32
  // CHECK-SAME: backend_config = {index = 4 : i64, program = 7 : i64, python = "f"}
  // CHECK-SAME: operand_layouts = [dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>]
  // CHECK-SAME: result_layouts = [dense<> : tensor<0xindex>]
  // CHECK-SAME: (tensor<2xui32>, tensor<f64>) -> tensor<f64>
  // CHECK-NEXT: return %[[Y]]
  %y = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: other_kinds_have_a_side_effect_and_layouts_are_row_major

"callback.func"() {sym_name = "log", function_type = (tensor<2x3xf64>) -> (), python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%t: !stablehlo.token, %x: tensor<2x3xf64>) -> !stablehlo.token {
  // CHECK-SAME: %[[T:.+]]: !stablehlo.token, %[[X:.+]]: tensor<2x3xf64>, %[[TABLE:.+]]: tensor<2xui32>
  // CHECK: stablehlo.custom_call @bellhop_callback(%[[TABLE]], %[[X]])
  // CHECK-SAME: has_side_effect = true
  // CHECK-SAME: -> ()
  // CHECK: %[[U:.+]] = stablehlo.custom_call @bellhop_callback(%[[TABLE]], %[[T]], %[[X]])
  // CHECK-SAME: has_side_effect = true
  // CHECK-SAME: operand_layouts = [dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>, dense<[1, 0]> : tensor<2xindex>]
  // CHECK: return %[[U]]
  "callback.call"(%x) {callee = @log, kind = "io"} : (tensor<2x3xf64>) -> ()
  %u = "callback.call"(%t, %x) {callee = @log, kind = "debug"} : (!stablehlo.token, tensor<2x3xf64>) -> !stablehlo.token
  return %u : !stablehlo.token
}

// -----
// TEST: table_reaches_functions_and_nested_regions_that_call_python

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>, %n: tensor<i32>) -> tensor<f64> {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>, %[[N:.+]]: tensor<i32>, %[[T:.+]]: tensor<2xui32>
  // CHECK: stablehlo.while
  // CHECK-NEXT: cond {
  // CHECK-NEXT: stablehlo.custom_call @bellhop_callback(%[[T]],
  // CHECK: do {
  // CHECK-NEXT: "stablehlo.case"(%[[N]])
  // CHECK: func.call @middle(%{{.+}}, %[[T]]) {{.*}}no_inline
  // CHECK: stablehlo.custom_call @bellhop_callback(%[[T]],
  // CHECK: call @leaf(%{{.+}}, %[[T]])
  // CHECK: call @other(%{{[a-z0-9]+}}) : (tensor<f64>) -> tensor<f64>
  %r = stablehlo.while(%i = %x) : tensor<f64>
    cond {
      %a = "callback.call"(%i) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
      %t = stablehlo.compare LT, %a, %x : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %b = "stablehlo.case"(%n) ({
        %c = "func.call"(%i) <{callee = @middle, no_inline}> : (tensor<f64>) -> tensor<f64>
        stablehlo.return %c : tensor<f64>
      }, {
        %d = "callback.call"(%i) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
        stablehlo.return %d : tensor<f64>
      }) : (tensor<i32>) -> tensor<f64>
      stablehlo.return %b : tensor<f64>
    }
  %y = func.call @leaf(%r) : (tensor<f64>) -> tensor<f64>
  %z = func.call @other(%y) : (tensor<f64>) -> tensor<f64>
  return %z : tensor<f64>
}
// CHECK-LABEL: func.func private @middle
func.func private @middle(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>, %[[T:.+]]: tensor<2xui32>
  // CHECK-NEXT: call @leaf(%[[X]], %[[T]])
  %y = func.call @leaf(%x) : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
// CHECK-LABEL: func.func private @leaf
func.func private @leaf(%x: tensor<f64> {jax.note = "kept"}) -> tensor<f64> {
  // CHECK-SAME: %[[X:.+]]: tensor<f64> {jax.note = "kept"}, %[[T:.+]]: tensor<2xui32>
  // CHECK-NEXT: stablehlo.custom_call @bellhop_callback(%[[T]], %[[X]])
  %y = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
// CHECK-LABEL: func.func private @other(
func.func private @other(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<f64>) -> tensor<f64>
  return %x : tensor<f64>
}

// -----
// TEST: composite_passes_the_table_on

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>, %[[T:.+]]: tensor<2xui32>
  // CHECK-NEXT: stablehlo.composite "my.op" %[[X]], %[[T]] {composite_attributes = {a = 1 : i64}, decomposition = @body, version = 2 : i32}
  %y = stablehlo.composite "my.op" %x {composite_attributes = {a = 1 : i64}, decomposition = @body, version = 2 : i32} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @body(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: main_takes_the_table_even_without_calls

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>, %{{.+}}: tensor<2xui32>
  // CHECK-NEXT: call @other(%[[X]])
  %y = func.call @other(%x) : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
// CHECK-LABEL: func.func private @other(
func.func private @other(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<f64>) -> tensor<f64>
  return %x : tensor<f64>
}

// -----
// TEST: region_that_is_left_is_refused
// REFUSED

// CHECK: the region @f is left: convert-callback-to-runtime needs convert-accelerate-to-runtime to run before it
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.accelerate"(%x) {callee = @f, device = "cuda:0"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @f(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----
// TEST: module_without_main_is_refused
// REFUSED

// CHECK: convert-callback-to-runtime needs a function @main
func.func public @other(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----
// TEST: reference_that_cannot_pass_the_table_is_refused
// REFUSED

// CHECK: stablehlo.custom_call refers to a function that calls Python (@body), which is not supported
"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = stablehlo.custom_call @sort(%x) {called_computations = [@body]} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @body(%x: tensor<f64>) -> tensor<f64> {
  %y = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}

// -----
// TEST: call_where_the_table_cannot_be_seen_is_refused
// REFUSED

// CHECK: the call of @f is in sdy.manual_computation, which is not supported. Call it outside jax.shard_map.
"callback.func"() {sym_name = "f", function_type = (tensor<1xf64>) -> tensor<1xf64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
func.func public @main(%x: tensor<1xf64>) -> tensor<1xf64> {
  %y = sdy.manual_computation(%x) in_shardings=[<mesh<[]>, [{}]>] out_shardings=[<mesh<[]>, [{}]>] manual_axes={} (%a: tensor<1xf64>) {
    %z = "callback.call"(%a) {callee = @f, kind = "pure"} : (tensor<1xf64>) -> tensor<1xf64>
    sdy.return %z : tensor<1xf64>
  } : (tensor<1xf64>) -> tensor<1xf64>
  return %y : tensor<1xf64>
}

// -----
// TEST: aliases_are_counted_with_the_table_and_the_token

"callback.func"() {sym_name = "f", function_type = (tensor<f64>, tensor<2xf64>) -> (tensor<2xf64>, tensor<f64>), python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
"callback.func"() {sym_name = "g", function_type = (tensor<f64>) -> tensor<f64>, python = "g", site = "f.py:2", id = 1 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%t: !stablehlo.token, %x: tensor<f64>, %v: tensor<2xf64>) -> (!stablehlo.token, tensor<2xf64>, tensor<f64>) {
  // CHECK: stablehlo.custom_call @bellhop_callback
  // CHECK-SAME: output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [1], operand_index = 1, operand_tuple_indices = []>, #stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 2, operand_tuple_indices = []>]
  %r:2 = "callback.call"(%x, %v) {callee = @f, kind = "pure", aliases = array<i64: 0, 1, 1, 0>} : (tensor<f64>, tensor<2xf64>) -> (tensor<2xf64>, tensor<f64>)
  // CHECK: stablehlo.custom_call @bellhop_callback
  // CHECK-SAME: output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 1, operand_tuple_indices = []>]
  %s = "callback.call"(%r#1) {callee = @g, kind = "pure", aliases = array<i64: 0, 0>} : (tensor<f64>) -> tensor<f64>
  // CHECK: stablehlo.custom_call @bellhop_callback
  // CHECK-SAME: output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [1], operand_index = 2, operand_tuple_indices = []>]
  %u:2 = "callback.call"(%t, %s) {callee = @g, kind = "io", aliases = array<i64: 0, 0>} : (!stablehlo.token, tensor<f64>) -> (!stablehlo.token, tensor<f64>)
  return %u#0, %r#0, %u#1 : !stablehlo.token, tensor<2xf64>, tensor<f64>
}

// -----
// TEST: seed_takes_the_table

// CHECK-LABEL: func.func public @main
func.func public @main() -> tensor<4xui32> {
  // CHECK-SAME: %[[T:.+]]: tensor<2xui32> {bellhop.table}
  // CHECK-NEXT: call @circuit(%[[T]])
  %0 = func.call @circuit() : () -> tensor<4xui32>
  return %0 : tensor<4xui32>
}
// CHECK: func.func private @circuit(%[[U:.+]]: tensor<2xui32> {bellhop.table})
func.func private @circuit() -> tensor<4xui32> {
  // CHECK-NEXT: stablehlo.custom_call @bellhop_seed(%[[U]])
  // CHECK-SAME: backend_config = {circuit = 3 : i64}
  // CHECK-SAME: has_side_effect = true
  %0 = "quantum.seed"() {circuit = 3 : i64} : () -> tensor<4xui32>
  return %0 : tensor<4xui32>
}

// -----
// TEST: taps_are_custom_calls_of_their_own

"callback.func"() {sym_name = "log", function_type = (tensor<2x3xf64>) -> (), python = "f", site = "f.py:1", id = 3 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%t: !stablehlo.token, %x: tensor<2x3xf64>) -> !stablehlo.token {
  // CHECK-SAME: %[[T:.+]]: !stablehlo.token, %[[X:.+]]: tensor<2x3xf64>, %[[TABLE:.+]]: tensor<2xui32>
  // CHECK-NEXT: %[[U:.+]] = stablehlo.custom_call @bellhop_tap(%[[TABLE]], %[[T]], %[[X]])
  // CHECK-SAME: backend_config = {index = 3 : i64, program = 7 : i64, python = "f"}
  // CHECK-SAME: has_side_effect = true
  // CHECK: return %[[U]]
  %u = "callback.call"(%t, %x) {callee = @log, kind = "tap"} : (!stablehlo.token, tensor<2x3xf64>) -> !stablehlo.token
  return %u : !stablehlo.token
}
