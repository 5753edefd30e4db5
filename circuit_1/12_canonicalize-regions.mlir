module @jit_circuit attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<f64>) -> (tensor<f64> {jax.result_info = "result[0]"}) {
    %0 = "quantum.begin"(%arg0) {backend = "engine", engine = 1 : i64, factory = "LightningSimulator", kwargs = "{'mcmc': False, 'num_burnin': 0}", library = "/work/wt/base/lib/python3.11/site-packages/pennylane_lightning/liblightning_qubit_catalyst.so", name = "circuit", precision = 64 : i64, qubits = 1 : i64, record = 0 : i64, rows = 0 : i64, seeded = 0 : i64, shots = 0 : i64, site = "/work/wt/l/doc/contributing/add-a-pass.md:34", tree = 0 : i64} : (tensor<f64>) -> tensor<2xui32>
    %1:2 = call @circuit_circuit(%0, %arg0) : (tensor<2xui32>, tensor<f64>) -> (tensor<2xui32>, tensor<f64>)
    "quantum.end"(%1#0) : (tensor<2xui32>) -> ()
    return %1#1 : tensor<f64>
  }
  func.func private @circuit_circuit(%arg0: tensor<2xui32>, %arg1: tensor<f64>) -> (tensor<2xui32>, tensor<f64>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<0xf64>
    %1 = stablehlo.reshape %arg1 : (tensor<f64>) -> tensor<1xf64>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<0xi32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<-1> : tensor<i32>
    %3 = "quantum.gates"(%arg0, %1, %c_1, %2) {code = array<i64: 0, 0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0>, constants = array<f64>, names = "Hadamard\0ARX"} : (tensor<2xui32>, tensor<1xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
    // Hadamard 0
    // RX(p[0]) 0
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %4 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f64>) -> tensor<0xf64>
    %5 = stablehlo.concatenate %4, %1, dim = 0 : (tensor<0xf64>, tensor<1xf64>) -> tensor<1xf64>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %6 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f64>) -> tensor<0xf64>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %7 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f64>) -> tensor<0xf64>
    %8 = stablehlo.concatenate %6, %7, dim = 0 : (tensor<0xf64>, tensor<0xf64>) -> tensor<0xf64>
    %9:2 = "quantum.measure"(%3, %8) {code = array<i64: 0, 3, 0>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<0xf64>) -> (tensor<2xui32>, tensor<f64>)
    return %9#0, %9#1 : tensor<2xui32>, tensor<f64>
  }
}
