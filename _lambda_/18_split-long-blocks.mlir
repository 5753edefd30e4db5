module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<f64>, %arg1: tensor<2xui32> {bellhop.table}) -> (tensor<3x40x1xi64> {jax.result_info = "result[0]"}) {
    %c = stablehlo.constant dense<0> : tensor<i64>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i64>) -> tensor<3x40x1xi64>
    %c_1 = stablehlo.constant dense<0> : tensor<i64>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.convert %c_2 : (tensor<i32>) -> tensor<f64>
    %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f64>) -> tensor<f64>
    %3 = stablehlo.custom_call @bellhop_callback(%arg1, %arg0) {api_version = 4 : i32, backend_config = {index = 1 : i64, program = 27255071939845701 : i64, python = "transfer"}, has_side_effect = true, operand_layouts = [dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>], result_layouts = [dense<0> : tensor<1xindex>]} : (tensor<2xui32>, tensor<f64>) -> tensor<2xui32>
    %c_3 = stablehlo.constant dense<0> : tensor<i64>
    %c_4 = stablehlo.constant dense<0> : tensor<i64>
    %4:4 = stablehlo.while(%iterArg = %c_3, %iterArg_6 = %2, %iterArg_7 = %c_4, %iterArg_8 = %0) : tensor<i64>, tensor<f64>, tensor<i64>, tensor<3x40x1xi64>
    cond {
      %c_9 = stablehlo.constant dense<3> : tensor<i64>
      %7 = stablehlo.compare LT, %iterArg_7, %c_9, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7 = stablehlo.custom_call @bellhop_seed(%arg1) {api_version = 4 : i32, backend_config = {circuit = 1 : i64}, has_side_effect = true, operand_layouts = [dense<0> : tensor<1xindex>], result_layouts = [dense<0> : tensor<1xindex>]} : (tensor<2xui32>) -> tensor<4xui32>
      %8 = stablehlo.custom_call @bellhop_callback(%arg1, %3, %7) {api_version = 4 : i32, backend_config = {index = 2 : i64, program = 27255071939845701 : i64, python = "bits"}, has_side_effect = true, operand_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]} : (tensor<2xui32>, tensor<2xui32>, tensor<4xui32>) -> tensor<40x1xi64>
      %9 = func.call @dynamic_update_index_in_dim(%iterArg_8, %8, %iterArg_7) : (tensor<3x40x1xi64>, tensor<40x1xi64>, tensor<i64>) -> tensor<3x40x1xi64>
      %c_9 = stablehlo.constant dense<1> : tensor<i64>
      %10 = stablehlo.add %iterArg_7, %c_9 : tensor<i64>
      stablehlo.return %iterArg, %iterArg_6, %10, %9 : tensor<i64>, tensor<f64>, tensor<i64>, tensor<3x40x1xi64>
    }
    %c_5 = stablehlo.constant dense<0> : tensor<2xui32>
    %5 = stablehlo.or %3, %c_5 : tensor<2xui32>
    %6 = stablehlo.or %5, %5 : tensor<2xui32>
    stablehlo.custom_call @bellhop_region_release(%arg1, %3, %6) {api_version = 4 : i32, backend_config = {index = 1 : i64, program = 27255071939845701 : i64, python = "transfer"}, has_side_effect = true, operand_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>], result_layouts = []} : (tensor<2xui32>, tensor<2xui32>, tensor<2xui32>) -> ()
    return %4#3 : tensor<3x40x1xi64>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<3x40x1xi64>, %arg1: tensor<40x1xi64>, %arg2: tensor<i64>) -> tensor<3x40x1xi64> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<40x1xi64>) -> tensor<1x40x1xi64>
    %c = stablehlo.constant dense<0> : tensor<i64>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x40x1xi64>, tensor<1x40x1xi64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<3x40x1xi64>
    return %1 : tensor<3x40x1xi64>
  }
}
