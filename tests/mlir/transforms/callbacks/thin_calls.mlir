// RUN: --pass=thin-calls

// TEST: a_loop_and_a_conditional_carry_the_count

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> (), python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%token: !stablehlo.token, %x: tensor<f64>, %p: tensor<i1>) -> !stablehlo.token {
  // CHECK-SAME: %[[TOKEN:.+]]: !stablehlo.token, %[[X:.+]]: tensor<f64>, %[[P:.+]]: tensor<i1>
  // CHECK: %[[FIRST:.+]] = stablehlo.constant dense<0> : tensor<i64>
  // CHECK: stablehlo.while(%[[T:.+]] = %[[TOKEN]], %[[COUNT:.+]] = %[[FIRST]]) : !stablehlo.token, tensor<i64>
  // CHECK: do
  // CHECK: %[[OUTER:.+]]:2 = "stablehlo.if"(%[[P]]) ({
  // CHECK: %[[DUE:.+]] = stablehlo.compare EQ, %[[COUNT]],
  // CHECK: %[[CALL:.+]] = "stablehlo.if"(%[[DUE]]) ({
  // CHECK-NEXT: %[[NEXT:.+]] = "callback.call"(%[[T]], %[[X]]) {callee = @f, kind = "debug"}
  // CHECK-NEXT: stablehlo.return %[[NEXT]]
  // CHECK-NEXT: }, {
  // CHECK-NEXT: stablehlo.return %[[T]]
  // CHECK: stablehlo.constant dense<100> : tensor<i64>
  // CHECK: %[[END:.+]] = stablehlo.select
  // CHECK-NEXT: stablehlo.return %[[CALL]], %[[END]]
  // CHECK-NEXT: }, {
  // CHECK-NEXT: stablehlo.return %[[T]], %[[COUNT]]
  // CHECK: stablehlo.return %[[OUTER]]#0, %[[OUTER]]#1
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
