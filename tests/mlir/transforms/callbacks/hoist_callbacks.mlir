// RUN: --pass=hoist-callbacks

// TEST: call_leaves_a_loop_that_surely_has_a_turn

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>, %y: tensor<f64>) -> tensor<f64> {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>, %[[Y:.+]]: tensor<f64>
  // CHECK: %[[S:.+]] = stablehlo.sine %[[Y]]
  // CHECK-NEXT: %[[R:.+]] = "callback.call"(%[[S]]) {callee = @f, kind = "pure"}
  // CHECK-NEXT: stablehlo.while
  // CHECK: do
  // CHECK-NOT: callback.call
  // CHECK: stablehlo.add %{{.+}}, %[[R]]
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %0:3 = stablehlo.while(%i = %zero, %v = %x, %c = %y) : tensor<i64>, tensor<f64>, tensor<f64>
  cond {
    %n = stablehlo.constant dense<5> : tensor<i64>
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %s = stablehlo.sine %c : tensor<f64>
    %r = "callback.call"(%s) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
    %w = stablehlo.add %v, %r : tensor<f64>
    stablehlo.return %i, %w, %c : tensor<i64>, tensor<f64>, tensor<f64>
  }
  return %0#1 : tensor<f64>
}

// -----
// TEST: call_leaves_another_loop_under_the_condition_of_its_first_turn

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<2xcomplex<f64>>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<2xcomplex<f64>>, %y: tensor<f64>, %n: tensor<i64>) -> tensor<2xcomplex<f64>> {
  // CHECK-SAME: %{{.+}}: tensor<2xcomplex<f64>>, %[[Y:.+]]: tensor<f64>, %[[N:.+]]: tensor<i64>
  // CHECK: %[[P:.+]] = stablehlo.compare LT, %[[ZERO:.+]], %[[N]]
  // CHECK-NEXT: %[[R:.+]] = "stablehlo.if"(%[[P]]) ({
  // CHECK-NEXT: %[[C:.+]] = "callback.call"(%[[Y]]) {callee = @f, kind = "pure"}
  // CHECK-NEXT: stablehlo.return %[[C]]
  // CHECK-NEXT: }, {
  // CHECK: %[[Z:.+]] = stablehlo.broadcast_in_dim {{.*}} -> tensor<2xcomplex<f64>>
  // CHECK-NEXT: stablehlo.return %[[Z]]
  // CHECK: stablehlo.while
  // CHECK-NOT: callback.call
  // CHECK: stablehlo.add %{{.+}}, %[[R]]
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i64>, tensor<2xcomplex<f64>>
  cond {
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %r = "callback.call"(%y) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<2xcomplex<f64>>
    %w = stablehlo.add %v, %r : tensor<2xcomplex<f64>>
    stablehlo.return %i, %w : tensor<i64>, tensor<2xcomplex<f64>>
  }
  return %0#1 : tensor<2xcomplex<f64>>
}

// -----
// TEST: effects_stay_and_pure_calls_leave_all_the_same

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
"callback.func"() {sym_name = "log", function_type = (tensor<f64>) -> (), python = "log", site = "f.py:2", id = 1 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>, %y: tensor<f64>) -> tensor<f64> {
  // CHECK: callee = @f
  // CHECK: do
  // CHECK-NEXT: callee = @log
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i64>, tensor<f64>
  cond {
    %n = stablehlo.constant dense<5> : tensor<i64>
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    "callback.call"(%v) {callee = @log, kind = "io"} : (tensor<f64>) -> ()
    %r = "callback.call"(%y) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
    %w = stablehlo.add %v, %r : tensor<f64>
    stablehlo.return %i, %w : tensor<i64>, tensor<f64>
  }
  return %0#1 : tensor<f64>
}

// -----
// TEST: call_in_a_conditional_of_a_loop_that_may_have_no_turn_stays

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>, %n: tensor<i64>, %b: tensor<i1>) -> tensor<f64> {
  // CHECK: do
  // CHECK: stablehlo.if
  // CHECK-NEXT: "callback.call"({{.*}}) {bellhop.stays, callee = @f, kind = "pure"}
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i64>, tensor<f64>
  cond {
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %r = "stablehlo.if"(%b) ({
      %s = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
      stablehlo.return %s : tensor<f64>
    }, {
      stablehlo.return %x : tensor<f64>
    }) : (tensor<i1>) -> tensor<f64>
    %w = stablehlo.add %v, %r : tensor<f64>
    stablehlo.return %i, %w : tensor<i64>, tensor<f64>
  }
  return %0#1 : tensor<f64>
}

// -----
// TEST: functions_are_inlined_into_loops_and_calls_leave_two_of_them

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>, %y: tensor<f64>) -> tensor<f64> {
  // CHECK-SAME: %{{.+}}: tensor<f64>, %[[Y:.+]]: tensor<f64>
  // CHECK: "callback.call"(%[[Y]]) {callee = @f, kind = "pure"}
  // CHECK-NEXT: stablehlo.while
  // CHECK-NOT: callback.call
  // CHECK-NOT: @body
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i64>, tensor<f64>
  cond {
    %n = stablehlo.constant dense<5> : tensor<i64>
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %w = func.call @body(%v, %y) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    stablehlo.return %i, %w : tensor<i64>, tensor<f64>
  }
  return %0#1 : tensor<f64>
}
func.func private @body(%x: tensor<f64>, %y: tensor<f64>) -> tensor<f64> {
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i64>, tensor<f64>
  cond {
    %n = stablehlo.constant dense<3> : tensor<i64>
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %r = "callback.call"(%y) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
    %w = stablehlo.add %v, %r : tensor<f64>
    stablehlo.return %i, %w : tensor<i64>, tensor<f64>
  }
  return %0#1 : tensor<f64>
}

// -----
// TEST: calls_that_change_are_left_alone

"callback.func"() {sym_name = "f", function_type = (tensor<f64>) -> tensor<f64>, python = "f", site = "f.py:1", id = 0 : i64} : () -> ()
// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>, %n: tensor<i64>) -> tensor<f64> {
  // CHECK: do
  // CHECK-NEXT: "callback.call"(%{{.+}}) {callee = @f, kind = "pure"}
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i64>, tensor<f64>
  cond {
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %r = "callback.call"(%v) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
    stablehlo.return %i, %r : tensor<i64>, tensor<f64>
  }
  return %0#1 : tensor<f64>
}
