// RUN: --pass=thin-calls

// TEST: a_loop_and_a_conditional_carry_the_count

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> (), python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%token: !stablehlo.token, %x: tensor<f64>, %p: tensor<i1>) -> !stablehlo.token {
  // CHECK-SAME: %[[TOKEN:.+]]: !stablehlo.token, %[[X:.+]]: tensor<f64>, %[[P:.+]]: tensor<i1>
  // CHECK: %[[FIRST:.+]] = stablehlo.constant dense<0> : tensor<i64>
  // CHECK: stablehlo.while(%[[T:.+]] = %[[TOKEN]], %[[COUNT:.+]] = %[[FIRST]]) : !stablehlo.token, tensor<i64>
  // CHECK: do
  // CHECK: %[[ZERO:.+]] = stablehlo.compare EQ, %[[COUNT]],
  // CHECK: stablehlo.constant dense<99> : tensor<i64>
  // CHECK: %[[DUE:.+]] = stablehlo.and %[[P]], %[[ZERO]]
  // CHECK: %[[END:.+]] = stablehlo.select %[[P]], %{{.+}}, %[[COUNT]]
  // CHECK: %[[CALL:.+]] = "stablehlo.if"(%[[DUE]]) ({
  // CHECK-NEXT: %[[NEXT:.+]] = "callback.call"(%[[T]], %[[X]]) {callee = @f, kind = "debug"}
  // CHECK-NEXT: stablehlo.return %[[NEXT]]
  // CHECK-NEXT: }, {
  // CHECK-NEXT: stablehlo.return %[[T]]
  // CHECK: stablehlo.return %[[CALL]], %[[END]]
  %0 = stablehlo.while(%t = %token) : !stablehlo.token
  cond {
    %q = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %q : tensor<i1>
  } do {
    %1 = "stablehlo.if"(%p) ({
      %2 = "callback.call"(%t, %x) {callee = @f, kind = "debug", bellhop.every = 100 : i64} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
      stablehlo.return %2 : !stablehlo.token
    }, {
      stablehlo.return %t : !stablehlo.token
    }) : (tensor<i1>) -> !stablehlo.token
    stablehlo.return %1 : !stablehlo.token
  }
  return %0 : !stablehlo.token
}

// -----
// TEST: a_conditional_with_more_returns_the_count

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> (), python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%token: !stablehlo.token, %x: tensor<f64>, %p: tensor<i1>) -> !stablehlo.token {
  // CHECK-SAME: %[[TOKEN:.+]]: !stablehlo.token, %[[X:.+]]: tensor<f64>, %[[P:.+]]: tensor<i1>
  // CHECK: %[[FIRST:.+]] = stablehlo.constant dense<0> : tensor<i64>
  // CHECK: %[[OUTER:.+]]:2 = "stablehlo.if"(%[[P]]) ({
  // CHECK: %[[DUE:.+]] = stablehlo.compare EQ, %[[FIRST]],
  // CHECK: %[[END:.+]] = stablehlo.select %[[DUE]]
  // CHECK: %[[CALL:.+]] = "stablehlo.if"(%[[DUE]]) ({
  // CHECK: "callback.call"(%[[TOKEN]], %[[S:.+]]) {callee = @f, kind = "debug"}
  // CHECK: stablehlo.return %[[CALL]], %[[END]]
  // CHECK-NEXT: }, {
  // CHECK-NEXT: stablehlo.return %[[TOKEN]], %[[FIRST]]
  // CHECK: return %[[OUTER]]#0
  %1 = "stablehlo.if"(%p) ({
    %s = stablehlo.sine %x : tensor<f64>
    %2 = "callback.call"(%token, %s) {callee = @f, kind = "debug", bellhop.every = 100 : i64} : (!stablehlo.token, tensor<f64>) -> !stablehlo.token
    stablehlo.return %2 : !stablehlo.token
  }, {
    stablehlo.return %token : !stablehlo.token
  }) : (tensor<i1>) -> !stablehlo.token
  return %1 : !stablehlo.token
}
