// RUN: --pass=coalesce-progress

// TEST: a_loop_tells_when_it_is_asked_to

"callback.func"() {sym_name = "f", function_type = (tensor<i64>, tensor<i64>) -> tensor<i64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%token: !stablehlo.token, %x: tensor<f64>, %total: tensor<i64>) -> (!stablehlo.token, tensor<f64>) {
  // CHECK-SAME: %[[TOKEN:.+]]: !stablehlo.token, %[[X:.+]]: tensor<f64>, %[[TOTAL:.+]]: tensor<i64>
  // CHECK: %[[FIRST:.+]] = stablehlo.constant dense<1> : tensor<2xi64>
  // CHECK: %[[LOOP:.+]]:3 = stablehlo.while(%[[T:.+]] = %[[TOKEN]], %[[V:.+]] = %[[X]], %[[COUNT:.+]] = %[[FIRST]])
  // CHECK: do
  // CHECK: %[[ONE:.+]] = stablehlo.constant dense<1> : tensor<i64>
  // CHECK: %[[S:.+]] = stablehlo.sine %[[V]]
  // CHECK: stablehlo.slice %[[COUNT]] [0:1]
  // CHECK: stablehlo.slice %[[COUNT]] [1:2]
  // CHECK: %[[DUE:.+]] = stablehlo.compare GE
  // CHECK: %[[IF:.+]]:2 = "stablehlo.if"(%[[DUE]]) ({
  // CHECK-NEXT: stablehlo.slice %[[COUNT]] [0:1]
  // CHECK-NEXT: %[[DONE:.+]] = stablehlo.reshape
  // CHECK-NEXT: %[[CALL:.+]]:2 = "callback.call"(%[[T]], %[[DONE]], %[[TOTAL]], %[[S]]) {callee = @f, kind = "progress"}
  // CHECK: %[[NEXT:.+]] = stablehlo.concatenate
  // CHECK-NEXT: stablehlo.return %[[CALL]]#0, %[[NEXT]]
  // CHECK-NEXT: }, {
  // CHECK: %[[MORE:.+]] = stablehlo.add %[[COUNT]]
  // CHECK-NEXT: stablehlo.return %[[T]], %[[MORE]]
  // CHECK: stablehlo.return %[[IF]]#0, %[[S]], %[[IF]]#1
  // CHECK: %[[REST:.+]] = stablehlo.subtract
  // CHECK: %[[UNKNOWN:.+]] = stablehlo.constant dense<-1> : tensor<i64>
  // CHECK: %[[LAST:.+]]:2 = "callback.call"(%[[LOOP]]#0, %[[REST]], %[[UNKNOWN]]) {callee = @f, kind = "progress"}
  // CHECK: return %[[LAST]]#0, %[[LOOP]]#1
  %0:2 = stablehlo.while(%t = %token, %v = %x) : !stablehlo.token, tensor<f64>
  cond {
    %p = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i64>
    %s = stablehlo.sine %v : tensor<f64>
    %1, %due = "callback.call"(%t, %one, %total, %s) {callee = @f, kind = "progress"} : (!stablehlo.token, tensor<i64>, tensor<i64>, tensor<f64>) -> (!stablehlo.token, tensor<i64>)
    stablehlo.return %1, %s : !stablehlo.token, tensor<f64>
  }
  return %0#0, %0#1 : !stablehlo.token, tensor<f64>
}

// -----
// TEST: what_is_told_of_an_inner_loop_is_not_told_of_the_outer_one

"callback.func"() {sym_name = "f", function_type = (tensor<i32>, tensor<i32>) -> tensor<i32>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%token: !stablehlo.token, %total: tensor<i32>) -> !stablehlo.token {
  // CHECK: %[[OUTER:.+]] = stablehlo.while(%[[T:.+]] = %{{.+}}) : !stablehlo.token
  // CHECK: %[[INNER:.+]]:2 = stablehlo.while(%{{.+}} = %[[T]], %{{.+}} = %{{.+}}) : !stablehlo.token, tensor<2xi32>
  // CHECK: "stablehlo.if"
  // CHECK: "callback.call"
  // CHECK: %[[LAST:.+]]:2 = "callback.call"(%[[INNER]]#0,
  // CHECK-NEXT: stablehlo.return %[[LAST]]#0 : !stablehlo.token
  // CHECK: return %[[OUTER]]
  %0 = stablehlo.while(%t = %token) : !stablehlo.token
  cond {
    %p = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %1 = stablehlo.while(%u = %t) : !stablehlo.token
    cond {
      %p = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %2, %due = "callback.call"(%u, %one, %total) {callee = @f, kind = "progress"} : (!stablehlo.token, tensor<i32>, tensor<i32>) -> (!stablehlo.token, tensor<i32>)
      stablehlo.return %2 : !stablehlo.token
    }
    stablehlo.return %1 : !stablehlo.token
  }
  return %0 : !stablehlo.token
}

// -----
// TEST: a_call_in_a_conditional_stays

"callback.func"() {sym_name = "f", function_type = (tensor<i64>, tensor<i64>) -> tensor<i64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%token: !stablehlo.token, %total: tensor<i64>, %p: tensor<i1>) -> !stablehlo.token {
  // CHECK: stablehlo.while(%{{.+}} = %{{.+}}) : !stablehlo.token
  // CHECK-COUNT-1: "callback.call"
  // CHECK-NOT: "callback.call"
  %0 = stablehlo.while(%t = %token) : !stablehlo.token
  cond {
    stablehlo.return %p : tensor<i1>
  } do {
    %1 = "stablehlo.if"(%p) ({
      %one = stablehlo.constant dense<1> : tensor<i64>
      %2, %due = "callback.call"(%t, %one, %total) {callee = @f, kind = "progress"} : (!stablehlo.token, tensor<i64>, tensor<i64>) -> (!stablehlo.token, tensor<i64>)
      stablehlo.return %2 : !stablehlo.token
    }, {
      stablehlo.return %t : !stablehlo.token
    }) : (tensor<i1>) -> !stablehlo.token
    stablehlo.return %1 : !stablehlo.token
  }
  return %0 : !stablehlo.token
}
