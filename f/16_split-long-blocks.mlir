module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3xf64>, %arg1: tensor<2xui32> {bellhop.table}) -> (tensor<8xf64> {jax.result_info = "result[0]"}) {
    %c = stablehlo.constant dense<[0, 1, 2]> : tensor<3xi64>
    %0 = stablehlo.custom_call @bellhop_circuit_begin(%c, %arg0) {api_version = 4 : i32, backend_config = {engine = 1 : i64, factory = "LightningSimulator", kwargs = "{'mcmc': False, 'num_burnin': 0}", library = "/work/dev/base/lib/python3.11/site-packages/pennylane_lightning/liblightning_qubit_catalyst.so", name = "f", qubits = 3 : i64, record = 0 : i64, rows = 0 : i64, seeded = 0 : i64, shots = 0 : i64, site = "/tmp/ab2.py:6", tree = 1 : i64}, has_side_effect = true, operand_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>], result_layouts = [dense<0> : tensor<1xindex>]} : (tensor<3xi64>, tensor<3xf64>) -> tensor<2xui32>
    %1:2 = call @circuit_f(%0, %c, %arg0) : (tensor<2xui32>, tensor<3xi64>, tensor<3xf64>) -> (tensor<2xui32>, tensor<8xf64>)
    stablehlo.custom_call @bellhop_circuit_end(%1#0) {api_version = 4 : i32, backend_config = {}, has_side_effect = true, operand_layouts = [dense<0> : tensor<1xindex>], result_layouts = []} : (tensor<2xui32>) -> ()
    return %1#1 : tensor<8xf64>
  }
  func.func private @circuit_f(%arg0: tensor<2xui32>, %arg1: tensor<3xi64>, %arg2: tensor<3xf64>) -> (tensor<2xui32>, tensor<8xf64>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<8xf64>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %1:5 = stablehlo.while(%iterArg = %arg2, %iterArg_0 = %arg1, %iterArg_1 = %arg0, %iterArg_2 = %0, %iterArg_3 = %c) : tensor<3xf64>, tensor<3xi64>, tensor<2xui32>, tensor<8xf64>, tensor<i1>
    cond {
      stablehlo.return %iterArg_3 : tensor<i1>
    } do {
      %c_4 = stablehlo.constant dense<0> : tensor<i32>
      %2:2 = stablehlo.custom_call @bellhop_circuit_mid_measure(%iterArg_1, %c_4) {api_version = 4 : i32, backend_config = {postselect = -1 : i64, reset = 0 : i64, site = "/tmp/ab2.py:9"}, has_side_effect = true, operand_layouts = [dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>]} : (tensor<2xui32>, tensor<i32>) -> (tensor<2xui32>, tensor<i1>)
      %c_5 = stablehlo.constant dense<0> : tensor<i32>
      %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %3 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f64>) -> tensor<3x3xf64>
      %c_7 = stablehlo.constant dense<0> : tensor<i64>
      %4:7 = stablehlo.while(%iterArg_10 = %iterArg_0, %iterArg_11 = %2#1, %iterArg_12 = %iterArg, %iterArg_13 = %c_7, %iterArg_14 = %2#0, %iterArg_15 = %c_5, %iterArg_16 = %3) : tensor<3xi64>, tensor<i1>, tensor<3xf64>, tensor<i64>, tensor<2xui32>, tensor<i32>, tensor<3x3xf64>
      cond {
        %c_17 = stablehlo.constant dense<3> : tensor<i64>
        %11 = stablehlo.compare LT, %iterArg_13, %c_17, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
        stablehlo.return %11 : tensor<i1>
      } do {
        %11 = stablehlo.dynamic_slice %iterArg_10, %iterArg_13, sizes = [1] : (tensor<3xi64>, tensor<i64>) -> tensor<1xi64>
        %12 = stablehlo.reshape %11 : (tensor<1xi64>) -> tensor<i64>
        %13:3 = func.call @closed_call(%iterArg_11, %iterArg_12, %iterArg_14, %iterArg_15, %12) : (tensor<i1>, tensor<3xf64>, tensor<2xui32>, tensor<i32>, tensor<i64>) -> (tensor<2xui32>, tensor<i32>, tensor<3xf64>)
        %14 = stablehlo.broadcast_in_dim %13#2, dims = [1] : (tensor<3xf64>) -> tensor<1x3xf64>
        %c_17 = stablehlo.constant dense<0> : tensor<i64>
        %15 = stablehlo.dynamic_update_slice %iterArg_16, %14, %iterArg_13, %c_17 : (tensor<3x3xf64>, tensor<1x3xf64>, tensor<i64>, tensor<i64>) -> tensor<3x3xf64>
        %c_18 = stablehlo.constant dense<1> : tensor<i64>
        %16 = stablehlo.add %iterArg_13, %c_18 : tensor<i64>
        stablehlo.return %iterArg_10, %iterArg_11, %iterArg_12, %16, %13#0, %13#1, %15 : tensor<3xi64>, tensor<i1>, tensor<3xf64>, tensor<i64>, tensor<2xui32>, tensor<i32>, tensor<3x3xf64>
      }
      %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %5 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f64>) -> tensor<0xf64>
      %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %6 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f64>) -> tensor<0xf64>
      %7 = stablehlo.concatenate %5, %6, dim = 0 : (tensor<0xf64>, tensor<0xf64>) -> tensor<0xf64>
      %8:2 = stablehlo.custom_call @bellhop_circuit_measure(%4#4, %7) {api_version = 4 : i32, backend_config = {code = array<i64: 2, 3, 2, 0, 1>, jacobian = 0 : i64}, has_side_effect = true, operand_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>]} : (tensor<2xui32>, tensor<0xf64>) -> (tensor<2xui32>, tensor<8xf64>)
      %9:3 = stablehlo.custom_call @bellhop_circuit_restart(%8#0) {api_version = 4 : i32, backend_config = {}, has_side_effect = true, operand_layouts = [dense<0> : tensor<1xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>, dense<> : tensor<0xindex>]} : (tensor<2xui32>) -> (tensor<2xui32>, tensor<i1>, tensor<i1>)
      %10 = stablehlo.add %iterArg_2, %8#1 : tensor<8xf64>
      stablehlo.return %iterArg, %iterArg_0, %9#0, %10, %9#1 : tensor<3xf64>, tensor<3xi64>, tensor<2xui32>, tensor<8xf64>, tensor<i1>
    }
    return %1#2, %1#3 : tensor<2xui32>, tensor<8xf64>
  }
  func.func private @closed_call(%arg0: tensor<i1>, %arg1: tensor<3xf64>, %arg2: tensor<2xui32>, %arg3: tensor<i32>, %arg4: tensor<i64>) -> (tensor<2xui32>, tensor<i32>, tensor<3xf64>) {
    %0 = stablehlo.convert %arg0 : (tensor<i1>) -> tensor<i64>
    %c = stablehlo.constant dense<0> : tensor<i64>
    %1 = stablehlo.compare NE, %0, %c, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<1> : tensor<i32>
    %2 = call @_where(%1, %c_0, %c_1) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<1> : tensor<i32>
    %3 = stablehlo.clamp %c_2, %2, %c_3 : tensor<i32>
    %4:2 = "stablehlo.case"(%3) ({
      %8:3 = func.call @closed_call_scalars_1(%arg1, %arg4, %arg0) {mhlo.frontend_attributes = {inlineable = "false", xla_cpu_small_call = "true"}} : (tensor<3xf64>, tensor<i64>, tensor<i1>) -> (tensor<f64>, tensor<f64>, tensor<f64>)
      %cst_5 = stablehlo.constant dense<1.400000e-01> : tensor<f64>
      %c_6 = stablehlo.constant dense<0> : tensor<i64>
      %cst_7 = stablehlo.constant dense<5.000000e-01> : tensor<f64>
      %cst_8 = stablehlo.constant dense<2.800000e-01> : tensor<f64>
      %c_9 = stablehlo.constant dense<1> : tensor<i64>
      %cst_10 = stablehlo.constant dense<5.000000e-01> : tensor<f64>
      %c_11 = stablehlo.constant dense<0> : tensor<i64>
      %cst_12 = stablehlo.constant dense<5.000000e-01> : tensor<f64>
      %cst_13 = stablehlo.constant dense<1.500000e-01> : tensor<f64>
      %cst_14 = stablehlo.constant dense<5.000000e-01> : tensor<f64>
      %c_15 = stablehlo.constant dense<0> : tensor<i64>
      %9:3 = func.call @closed_call_scalars_2(%8#0, %8#1, %8#2) {mhlo.frontend_attributes = {inlineable = "false", xla_cpu_small_call = "true"}} : (tensor<f64>, tensor<f64>, tensor<f64>) -> (tensor<1xf64>, tensor<1xf64>, tensor<1xf64>)
      %10 = stablehlo.concatenate %9#0, %9#1, %9#2, dim = 0 : (tensor<1xf64>, tensor<1xf64>, tensor<1xf64>) -> tensor<3xf64>
      %c_16 = stablehlo.constant dense<0> : tensor<i32>
      %11 = stablehlo.broadcast_in_dim %c_16, dims = [] : (tensor<i32>) -> tensor<0xi32>
      %c_17 = stablehlo.constant dense<-1> : tensor<i32>
      %12 = stablehlo.custom_call @bellhop_circuit_gates(%arg2, %10, %c_17, %11) {api_version = 4 : i32, backend_config = {code = array<i64: 0, 0, 1, 2, 0, 0, 1, 2, 1, 0, 1, 1, 0, 1, 0, 0, 0, 1, 2, 0, 2, 0, 2>, constants = array<f64>, names = "IsingZZ\0ARY"}, has_side_effect = true, operand_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>, dense<0> : tensor<1xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<0> : tensor<1xindex>]} : (tensor<2xui32>, tensor<3xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
      %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %13 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f64>) -> tensor<0xf64>
      %14 = stablehlo.concatenate %13, %10, dim = 0 : (tensor<0xf64>, tensor<3xf64>) -> tensor<3xf64>
      %c_19 = stablehlo.constant dense<0> : tensor<i64>
      %15 = func.call @_pad(%14, %c_19) : (tensor<3xf64>, tensor<i64>) -> tensor<3xf64>
      stablehlo.return %12, %15 : tensor<2xui32>, tensor<3xf64>
    }, {
      %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %8 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f64>) -> tensor<0xf64>
      %c_6 = stablehlo.constant dense<0> : tensor<i64>
      %9 = func.call @_pad_12(%8, %c_6) : (tensor<0xf64>, tensor<i64>) -> tensor<3xf64>
      stablehlo.return %arg2, %9 : tensor<2xui32>, tensor<3xf64>
    }) : (tensor<i32>) -> (tensor<2xui32>, tensor<3xf64>)
    %c_4 = stablehlo.constant dense<3> : tensor<i32>
    %5 = stablehlo.add %arg3, %c_4 : tensor<i32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %6 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<0xf64>
    %7 = stablehlo.concatenate %6, %4#1, dim = 0 : (tensor<0xf64>, tensor<3xf64>) -> tensor<3xf64>
    return %4#0, %5, %7 : tensor<2xui32>, tensor<i32>, tensor<3xf64>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<i32>
    return %0 : tensor<i32>
  }
  func.func private @_pad(%arg0: tensor<3xf64>, %arg1: tensor<i64>) -> tensor<3xf64> {
    %0 = stablehlo.convert %arg1 : (tensor<i64>) -> tensor<f64>
    %1 = stablehlo.pad %arg0, %0, low = [0], high = [0], interior = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
    return %1 : tensor<3xf64>
  }
  func.func private @_pad_12(%arg0: tensor<0xf64>, %arg1: tensor<i64>) -> tensor<3xf64> {
    %0 = stablehlo.convert %arg1 : (tensor<i64>) -> tensor<f64>
    %1 = stablehlo.pad %arg0, %0, low = [0], high = [3], interior = [0] : (tensor<0xf64>, tensor<f64>) -> tensor<3xf64>
    return %1 : tensor<3xf64>
  }
  func.func private @closed_call_scalars_2(%arg0: tensor<f64>, %arg1: tensor<f64>, %arg2: tensor<f64>) -> (tensor<1xf64>, tensor<1xf64>, tensor<1xf64>) {
    %0 = stablehlo.reshape %arg0 : (tensor<f64>) -> tensor<1xf64>
    %1 = stablehlo.reshape %arg1 : (tensor<f64>) -> tensor<1xf64>
    %2 = stablehlo.reshape %arg2 : (tensor<f64>) -> tensor<1xf64>
    return %0, %1, %2 : tensor<1xf64>, tensor<1xf64>, tensor<1xf64>
  }
  func.func private @closed_call_scalars_1(%arg0: tensor<3xf64>, %arg1: tensor<i64>, %arg2: tensor<i1>) -> (tensor<f64>, tensor<f64>, tensor<f64>) {
    %cst = stablehlo.constant dense<1.400000e-01> : tensor<f64>
    %c = stablehlo.constant dense<0> : tensor<i64>
    %cst_0 = stablehlo.constant dense<5.000000e-01> : tensor<f64>
    %cst_1 = stablehlo.constant dense<2.800000e-01> : tensor<f64>
    %c_2 = stablehlo.constant dense<1> : tensor<i64>
    %cst_3 = stablehlo.constant dense<5.000000e-01> : tensor<f64>
    %c_4 = stablehlo.constant dense<0> : tensor<i64>
    %cst_5 = stablehlo.constant dense<5.000000e-01> : tensor<f64>
    %cst_6 = stablehlo.constant dense<1.500000e-01> : tensor<f64>
    %cst_7 = stablehlo.constant dense<5.000000e-01> : tensor<f64>
    %c_8 = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.slice %arg0 [2:3] : (tensor<3xf64>) -> tensor<1xf64>
    %1 = stablehlo.reshape %0 : (tensor<1xf64>) -> tensor<f64>
    %2 = stablehlo.subtract %1, %cst : tensor<f64>
    %3 = stablehlo.multiply %c, %arg1 : tensor<i64>
    %4 = stablehlo.convert %3 : (tensor<i64>) -> tensor<f64>
    %5 = stablehlo.add %2, %4 : tensor<f64>
    %6 = stablehlo.slice %arg0 [1:2] : (tensor<3xf64>) -> tensor<1xf64>
    %7 = stablehlo.reshape %6 : (tensor<1xf64>) -> tensor<f64>
    %8 = stablehlo.multiply %7, %cst_0 : tensor<f64>
    %9 = stablehlo.subtract %8, %cst_1 : tensor<f64>
    %10 = stablehlo.convert %arg2 : (tensor<i1>) -> tensor<i64>
    %11 = stablehlo.compare EQ, %10, %c_2, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %12 = stablehlo.convert %11 : (tensor<i1>) -> tensor<i64>
    %13 = stablehlo.convert %12 : (tensor<i64>) -> tensor<f64>
    %14 = stablehlo.multiply %cst_3, %13 : tensor<f64>
    %15 = stablehlo.convert %14 : tensor<f64>
    %16 = stablehlo.add %9, %15 : tensor<f64>
    %17 = stablehlo.multiply %c_4, %arg1 : tensor<i64>
    %18 = stablehlo.convert %17 : (tensor<i64>) -> tensor<f64>
    %19 = stablehlo.add %16, %18 : tensor<f64>
    %20 = stablehlo.slice %arg0 [0:1] : (tensor<3xf64>) -> tensor<1xf64>
    %21 = stablehlo.reshape %20 : (tensor<1xf64>) -> tensor<f64>
    %22 = stablehlo.multiply %21, %cst_5 : tensor<f64>
    %23 = stablehlo.add %22, %cst_6 : tensor<f64>
    %24 = stablehlo.convert %arg2 : (tensor<i1>) -> tensor<i64>
    %25 = stablehlo.convert %24 : (tensor<i64>) -> tensor<f64>
    %26 = stablehlo.multiply %cst_7, %25 : tensor<f64>
    %27 = stablehlo.convert %26 : tensor<f64>
    %28 = stablehlo.add %23, %27 : tensor<f64>
    %29 = stablehlo.multiply %c_8, %arg1 : tensor<i64>
    %30 = stablehlo.convert %29 : (tensor<i64>) -> tensor<f64>
    %31 = stablehlo.add %28, %30 : tensor<f64>
    return %5, %19, %31 : tensor<f64>, tensor<f64>, tensor<f64>
  }
}
