module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3xf64>) -> (tensor<8xf64> {jax.result_info = "result[0]"}) {
    %c = stablehlo.constant dense<[0, 1, 2]> : tensor<3xi64>
    %0 = "quantum.begin"(%c, %arg0) {engine = 1 : i64, factory = "LightningSimulator", kwargs = "{'mcmc': False, 'num_burnin': 0}", library = "/work/dev/base/lib/python3.11/site-packages/pennylane_lightning/liblightning_qubit_catalyst.so", name = "f", qubits = 3 : i64, record = 0 : i64, rows = 0 : i64, seeded = 0 : i64, shots = 0 : i64, site = "/tmp/ab2.py:6", tree = 1 : i64} : (tensor<3xi64>, tensor<3xf64>) -> tensor<2xui32>
    %1:2 = call @circuit_f(%0, %c, %arg0) : (tensor<2xui32>, tensor<3xi64>, tensor<3xf64>) -> (tensor<2xui32>, tensor<8xf64>)
    "quantum.end"(%1#0) : (tensor<2xui32>) -> ()
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
      %2:2 = "quantum.mid_measure"(%iterArg_1, %c_4) {postselect = -1 : i64, reset = 0 : i64, site = "/tmp/ab2.py:9"} : (tensor<2xui32>, tensor<i32>) -> (tensor<2xui32>, tensor<i1>)
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
      %8:2 = "quantum.measure"(%4#4, %7) {code = array<i64: 2, 3, 2, 0, 1>, jacobian = 0 : i64} : (tensor<2xui32>, tensor<0xf64>) -> (tensor<2xui32>, tensor<8xf64>)
      %9:3 = "quantum.restart"(%8#0) : (tensor<2xui32>) -> (tensor<2xui32>, tensor<i1>, tensor<i1>)
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
      %8 = stablehlo.slice %arg1 [2:3] : (tensor<3xf64>) -> tensor<1xf64>
      %9 = stablehlo.reshape %8 : (tensor<1xf64>) -> tensor<f64>
      %cst_5 = stablehlo.constant dense<1.400000e-01> : tensor<f64>
      %10 = stablehlo.subtract %9, %cst_5 : tensor<f64>
      %c_6 = stablehlo.constant dense<0> : tensor<i64>
      %11 = stablehlo.multiply %c_6, %arg4 : tensor<i64>
      %12 = stablehlo.convert %11 : (tensor<i64>) -> tensor<f64>
      %13 = stablehlo.add %10, %12 : tensor<f64>
      %14 = stablehlo.slice %arg1 [1:2] : (tensor<3xf64>) -> tensor<1xf64>
      %15 = stablehlo.reshape %14 : (tensor<1xf64>) -> tensor<f64>
      %cst_7 = stablehlo.constant dense<5.000000e-01> : tensor<f64>
      %16 = stablehlo.multiply %15, %cst_7 : tensor<f64>
      %cst_8 = stablehlo.constant dense<2.800000e-01> : tensor<f64>
      %17 = stablehlo.subtract %16, %cst_8 : tensor<f64>
      %18 = stablehlo.convert %arg0 : (tensor<i1>) -> tensor<i64>
      %c_9 = stablehlo.constant dense<1> : tensor<i64>
      %19 = stablehlo.compare EQ, %18, %c_9, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %20 = stablehlo.convert %19 : (tensor<i1>) -> tensor<i64>
      %21 = stablehlo.convert %20 : (tensor<i64>) -> tensor<f64>
      %cst_10 = stablehlo.constant dense<5.000000e-01> : tensor<f64>
      %22 = stablehlo.multiply %cst_10, %21 : tensor<f64>
      %23 = stablehlo.convert %22 : tensor<f64>
      %24 = stablehlo.add %17, %23 : tensor<f64>
      %c_11 = stablehlo.constant dense<0> : tensor<i64>
      %25 = stablehlo.multiply %c_11, %arg4 : tensor<i64>
      %26 = stablehlo.convert %25 : (tensor<i64>) -> tensor<f64>
      %27 = stablehlo.add %24, %26 : tensor<f64>
      %28 = stablehlo.slice %arg1 [0:1] : (tensor<3xf64>) -> tensor<1xf64>
      %29 = stablehlo.reshape %28 : (tensor<1xf64>) -> tensor<f64>
      %cst_12 = stablehlo.constant dense<5.000000e-01> : tensor<f64>
      %30 = stablehlo.multiply %29, %cst_12 : tensor<f64>
      %cst_13 = stablehlo.constant dense<1.500000e-01> : tensor<f64>
      %31 = stablehlo.add %30, %cst_13 : tensor<f64>
      %32 = stablehlo.convert %arg0 : (tensor<i1>) -> tensor<i64>
      %33 = stablehlo.convert %32 : (tensor<i64>) -> tensor<f64>
      %cst_14 = stablehlo.constant dense<5.000000e-01> : tensor<f64>
      %34 = stablehlo.multiply %cst_14, %33 : tensor<f64>
      %35 = stablehlo.convert %34 : tensor<f64>
      %36 = stablehlo.add %31, %35 : tensor<f64>
      %c_15 = stablehlo.constant dense<0> : tensor<i64>
      %37 = stablehlo.multiply %c_15, %arg4 : tensor<i64>
      %38 = stablehlo.convert %37 : (tensor<i64>) -> tensor<f64>
      %39 = stablehlo.add %36, %38 : tensor<f64>
      %40 = stablehlo.reshape %13 : (tensor<f64>) -> tensor<1xf64>
      %41 = stablehlo.reshape %27 : (tensor<f64>) -> tensor<1xf64>
      %42 = stablehlo.reshape %39 : (tensor<f64>) -> tensor<1xf64>
      %43 = stablehlo.concatenate %40, %41, %42, dim = 0 : (tensor<1xf64>, tensor<1xf64>, tensor<1xf64>) -> tensor<3xf64>
      %c_16 = stablehlo.constant dense<0> : tensor<i32>
      %44 = stablehlo.broadcast_in_dim %c_16, dims = [] : (tensor<i32>) -> tensor<0xi32>
      %c_17 = stablehlo.constant dense<-1> : tensor<i32>
      %45 = "quantum.gates"(%arg2, %43, %c_17, %44) {code = array<i64: 0, 0, 1, 2, 0, 0, 1, 2, 1, 0, 1, 1, 0, 1, 0, 0, 0, 1, 2, 0, 2, 0, 2>, constants = array<f64>, names = "IsingZZ\0ARY"} : (tensor<2xui32>, tensor<3xf64>, tensor<i32>, tensor<0xi32>) -> tensor<2xui32>
      %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %46 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f64>) -> tensor<0xf64>
      %47 = stablehlo.concatenate %46, %43, dim = 0 : (tensor<0xf64>, tensor<3xf64>) -> tensor<3xf64>
      %c_19 = stablehlo.constant dense<0> : tensor<i64>
      %48 = func.call @_pad(%47, %c_19) : (tensor<3xf64>, tensor<i64>) -> tensor<3xf64>
      stablehlo.return %45, %48 : tensor<2xui32>, tensor<3xf64>
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
}
