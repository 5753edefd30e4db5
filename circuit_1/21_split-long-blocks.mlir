module @jit_circuit attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<f64>, %arg1: tensor<2xui32> {bellhop.table}) -> (tensor<f64> {jax.result_info = "result[0]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<0xf64>
    %1 = stablehlo.reshape %arg0 : (tensor<f64>) -> tensor<1xf64>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<0xi32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<-1> : tensor<i32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %3 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f64>) -> tensor<0xf64>
    %4 = stablehlo.concatenate %3, %1, dim = 0 : (tensor<0xf64>, tensor<1xf64>) -> tensor<1xf64>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %5 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f64>) -> tensor<0xf64>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %6 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f64>) -> tensor<0xf64>
    %7 = stablehlo.concatenate %5, %6, dim = 0 : (tensor<0xf64>, tensor<0xf64>) -> tensor<0xf64>
    %8 = stablehlo.custom_call @bellhop_circuit_run(%1, %7) {api_version = 4 : i32, backend_config = {code = array<i64: 0, 0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0>, constants = array<f64>, engine = 1 : i64, factory = "LightningSimulator", jacobian = 0 : i64, kwargs = "{'mcmc': False, 'num_burnin': 0}", library = "/work/wt/base/lib/python3.11/site-packages/pennylane_lightning/liblightning_qubit_catalyst.so", measurements = array<i64: 0, 3, 0>, name = "circuit", names = "Hadamard\0ARX", offset = -1 : i64, precision = 64 : i64, preparation = array<i64>, preparation_offset = -1 : i64, program = 0 : i64, qubits = 1 : i64, record = 0 : i64, rows = 0 : i64, site = "/work/wt/l/doc/contributing/add-a-pass.md:34"}, has_side_effect = true, operand_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>], result_layouts = [dense<> : tensor<0xindex>]} : (tensor<1xf64>, tensor<0xf64>) -> tensor<f64>
    return %8 : tensor<f64>
  }
}
