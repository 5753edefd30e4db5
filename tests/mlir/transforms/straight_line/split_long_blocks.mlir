// RUN: --pass=split-long-blocks{calls=1}

// TEST: parts_take_what_they_use_and_return_what_is_used_after_them

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>
  // CHECK-NEXT: %[[A:.+]]:2 = call @main_part_1(%[[X]]) {mhlo.frontend_attributes = {inlineable = "false"}}
  // CHECK-NEXT: %[[B:.+]] = call @main_part_2(%[[A]]#0, %[[A]]#1) {mhlo.frontend_attributes = {inlineable = "false"}}
  // CHECK-NEXT: %[[C:.+]] = call @main_part_3(%[[B]])
  // CHECK-NEXT: return %[[C]]
  %0 = stablehlo.negate %x : tensor<f64>
  %1 = stablehlo.custom_call @f(%0) : (tensor<f64>) -> tensor<f64>
  %2 = stablehlo.add %1, %0 : tensor<f64>
  %3 = stablehlo.custom_call @f(%2) : (tensor<f64>) -> tensor<f64>
  %4 = stablehlo.custom_call @f(%3) : (tensor<f64>) -> tensor<f64>
  return %4 : tensor<f64>
}
// CHECK: func.func private @main_part_3
// CHECK: func.func private @main_part_2(%[[P:.+]]: tensor<f64>, %[[Q:.+]]: tensor<f64>) -> tensor<f64>
// CHECK-NEXT: %[[R:.+]] = stablehlo.add %[[P]], %[[Q]]
// CHECK-NEXT: %[[S:.+]] = stablehlo.custom_call @f(%[[R]])
// CHECK-NEXT: return %[[S]]
// CHECK: func.func private @main_part_1(%[[X:.+]]: tensor<f64>) -> (tensor<f64>, tensor<f64>)
// CHECK-NEXT: %[[N:.+]] = stablehlo.negate %[[X]]
// CHECK-NEXT: %[[F:.+]] = stablehlo.custom_call @f(%[[N]])
// CHECK-NEXT: return %[[F]], %[[N]]

// -----
// TEST: constants_are_repeated_not_passed

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK: %[[A:.+]] = call @main_part_1(%{{.+}}) {{.*}} : (tensor<f64>) -> tensor<f64>
  // CHECK-NEXT: %[[B:.+]] = call @main_part_2(%[[A]]) {{.*}} : (tensor<f64>) -> tensor<f64>
  %two = stablehlo.constant dense<2.0> : tensor<f64>
  %0 = stablehlo.custom_call @f(%x) : (tensor<f64>) -> tensor<f64>
  %1 = stablehlo.multiply %0, %two : tensor<f64>
  %2 = stablehlo.custom_call @f(%1) : (tensor<f64>) -> tensor<f64>
  %3 = stablehlo.custom_call @f(%2) : (tensor<f64>) -> tensor<f64>
  return %3 : tensor<f64>
}
// CHECK: func.func private @main_part_2(%[[P:.+]]: tensor<f64>) -> tensor<f64>
// CHECK-NEXT: %[[TWO:.+]] = stablehlo.constant dense<2.0
// CHECK-NEXT: stablehlo.multiply %[[P]], %[[TWO]]

// -----
// TEST: what_stays_repeats_constants_too

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK: %[[C:.+]] = call @main_part_3
  // CHECK-NEXT: %[[TWO:.+]] = stablehlo.constant dense<2.0
  // CHECK-NEXT: stablehlo.multiply %[[C]], %[[TWO]]
  %two = stablehlo.constant dense<2.0> : tensor<f64>
  %0 = stablehlo.custom_call @f(%x) : (tensor<f64>) -> tensor<f64>
  %1 = stablehlo.custom_call @f(%0) : (tensor<f64>) -> tensor<f64>
  %2 = stablehlo.custom_call @f(%1) : (tensor<f64>) -> tensor<f64>
  %3 = stablehlo.multiply %2, %two : tensor<f64>
  return %3 : tensor<f64>
}

// -----
// TEST: what_a_loop_captures_is_taken_and_its_own_block_is_split_too

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>, %n: tensor<i32>) -> tensor<f64> {
  // CHECK-SAME: %[[X:.+]]: tensor<f64>, %[[N:.+]]: tensor<i32>
  // CHECK-NEXT: %[[A:.+]] = call @main_part_1(%[[X]])
  // CHECK-NEXT: %[[W:.+]] = call @main_part_2(%[[N]], %[[X]], %[[A]])
  // CHECK-NEXT: call @main_part_3(%[[W]])
  %0 = stablehlo.custom_call @f(%x) : (tensor<f64>) -> tensor<f64>
  %1:2 = stablehlo.while(%i = %n, %v = %x) : tensor<i32>, tensor<f64>
   cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %a = stablehlo.custom_call @f(%v) : (tensor<f64>) -> tensor<f64>
    %b = stablehlo.add %a, %0 : tensor<f64>
    %c = stablehlo.custom_call @f(%b) : (tensor<f64>) -> tensor<f64>
    %d = stablehlo.custom_call @f(%c) : (tensor<f64>) -> tensor<f64>
    stablehlo.return %i, %d : tensor<i32>, tensor<f64>
  }
  %2 = stablehlo.custom_call @f(%1#1) : (tensor<f64>) -> tensor<f64>
  %3 = stablehlo.custom_call @f(%2) : (tensor<f64>) -> tensor<f64>
  return %3 : tensor<f64>
}
// CHECK: stablehlo.while
// CHECK: do
// CHECK-NEXT: %[[P:.+]] = func.call @main_part_2_part_1(%{{.+}})
// CHECK-NEXT: %[[Q:.+]] = func.call @main_part_2_part_2(%[[P]], %{{.+}})
// CHECK-NEXT: func.call @main_part_2_part_3(%[[Q]])
// CHECK-NEXT: stablehlo.return

// -----
// TEST: short_blocks_stay

// CHECK-LABEL: func.func public @main
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  // CHECK-NOT: call @main_part
  // CHECK-COUNT-2: stablehlo.custom_call @f
  %0 = stablehlo.custom_call @f(%x) : (tensor<f64>) -> tensor<f64>
  %1 = stablehlo.custom_call @f(%0) : (tensor<f64>) -> tensor<f64>
  return %1 : tensor<f64>
}
