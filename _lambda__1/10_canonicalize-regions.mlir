module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  "callback.func"() {function_type = (tensor<f64>) -> tensor<i1>, id = 0 : i64, python = "bellhop.circuits.operations.checked_runs.DrawCheck", site = "/tmp/r3.py:7", sym_name = "draw_check"} : () -> ()
  func.func public @main(%arg0: tensor<f64>) -> (tensor<3x40x1xi64> {jax.result_info = "result[0]"}) {
    %c = stablehlo.constant dense<0> : tensor<i64>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i64>) -> tensor<3x40x1xi64>
    %c_1 = stablehlo.constant dense<0> : tensor<i64>
    %1:4 = stablehlo.while(%iterArg = %c, %iterArg_2 = %arg0, %iterArg_3 = %c_1, %iterArg_4 = %0) : tensor<i64>, tensor<f64>, tensor<i64>, tensor<3x40x1xi64>
    cond {
      %c_5 = stablehlo.constant dense<3> : tensor<i64>
      %2 = stablehlo.compare LT, %iterArg_3, %c_5, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %2 = "quantum.seed"() {circuit = 1 : i64} : () -> tensor<4xui32>
      %3 = "callback.accelerate"(%iterArg_2, %2) {callee = @accelerate_cpu_1__bits_0_0, device = "cpu:1"} : (tensor<f64>, tensor<4xui32>) -> tensor<40x1xi64>
      %4 = func.call @dynamic_update_index_in_dim(%iterArg_4, %3, %iterArg_3) : (tensor<3x40x1xi64>, tensor<40x1xi64>, tensor<i64>) -> tensor<3x40x1xi64>
      %c_5 = stablehlo.constant dense<1> : tensor<i64>
      %5 = stablehlo.add %iterArg_3, %c_5 : tensor<i64>
      stablehlo.return %iterArg, %iterArg_2, %5, %4 : tensor<i64>, tensor<f64>, tensor<i64>, tensor<3x40x1xi64>
    }
    return %1#3 : tensor<3x40x1xi64>
  }
  func.func private @accelerate_cpu_1__bits_0_0(%arg0: tensor<f64>, %arg1: tensor<4xui32>) -> tensor<40x1xi64> {
    %c = stablehlo.constant dense<0> : tensor<1xi64>
    %c_0 = stablehlo.constant dense<false> : tensor<1xi1>
    %cst = stablehlo.constant dense<[[[(1.000000e+00,0.000000e+00), (0.000000e+00,0.000000e+00)], [(1.000000e+00,0.000000e+00), (0.000000e+00,0.000000e+00)], [(0.000000e+00,0.000000e+00), (1.000000e+00,0.000000e+00)], [(0.000000e+00,0.000000e+00), (1.000000e+00,0.000000e+00)]]]> : tensor<1x4x2xcomplex<f64>>
    %c_1 = stablehlo.constant dense<[[[true, false, true, false], [false, true, false, true], [true, false, true, false], [false, true, false, true]]]> : tensor<1x4x4xi1>
    %cst_2 = stablehlo.constant dense<[[(1.000000e+00,0.000000e+00), (0.000000e+00,0.000000e+00), (0.000000e+00,0.000000e+00), (0.000000e+00,0.000000e+00)], [(0.000000e+00,0.000000e+00), (1.000000e+00,0.000000e+00), (0.000000e+00,0.000000e+00), (0.000000e+00,0.000000e+00)], [(0.000000e+00,0.000000e+00), (0.000000e+00,0.000000e+00), (1.000000e+00,0.000000e+00), (0.000000e+00,0.000000e+00)], [(0.000000e+00,0.000000e+00), (0.000000e+00,0.000000e+00), (0.000000e+00,0.000000e+00), (1.000000e+00,0.000000e+00)]]> : tensor<4x4xcomplex<f64>>
    %0 = stablehlo.broadcast_in_dim %cst_2, dims = [1, 2] : (tensor<4x4xcomplex<f64>>) -> tensor<1x4x4xcomplex<f64>>
    %c_3 = stablehlo.constant dense<1> : tensor<1x1xi64>
    %c_4 = stablehlo.constant dense<false> : tensor<1x1xi1>
    %c_5 = stablehlo.constant dense<[1, 0]> : tensor<2xi64>
    %c_6 = stablehlo.constant dense<0> : tensor<1xi64>
    %c_7 = stablehlo.constant dense<false> : tensor<1xi1>
    %c_8 = stablehlo.constant dense<0> : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %2 = stablehlo.reshape %arg1 : (tensor<4xui32>) -> tensor<2x2xui32>
    %3 = stablehlo.bitcast_convert %2 : (tensor<2x2xui32>) -> tensor<2xui64>
    %output_state, %output = stablehlo.rng_bit_generator %3, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>)
    %4 = stablehlo.slice %output [0:4] : (tensor<8xui32>) -> tensor<4xui32>
    %5 = stablehlo.slice %output [4:8] : (tensor<8xui32>) -> tensor<4xui32>
    %6 = stablehlo.slice %5 [0:2] : (tensor<4xui32>) -> tensor<2xui32>
    %7 = stablehlo.slice %5 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %8 = stablehlo.reshape %7 : (tensor<1xui32>) -> tensor<ui32>
    %9 = call @_threefry_fold_in(%6, %8) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %10 = stablehlo.slice %5 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %11 = stablehlo.reshape %10 : (tensor<1xui32>) -> tensor<ui32>
    %12 = call @_threefry_fold_in(%9, %11) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %c_9 = stablehlo.constant dense<0> : tensor<ui32>
    %13 = stablehlo.broadcast_in_dim %c_9, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %14 = stablehlo.compare EQ, %1, %13, UNSIGNED : (tensor<40xui32>, tensor<40xui32>) -> tensor<40xi1>
    %15 = stablehlo.iota dim = 1 : tensor<2x4xi32>
    %c_10 = stablehlo.constant dense<0> : tensor<i32>
    %16 = stablehlo.broadcast_in_dim %c_10, dims = [] : (tensor<i32>) -> tensor<2x4xi32>
    %17 = stablehlo.compare EQ, %15, %16, SIGNED : (tensor<2x4xi32>, tensor<2x4xi32>) -> tensor<2x4xi1>
    %18 = stablehlo.iota dim = 0 : tensor<2x4xi32>
    %c_11 = stablehlo.constant dense<0> : tensor<i32>
    %19 = stablehlo.broadcast_in_dim %c_11, dims = [] : (tensor<i32>) -> tensor<2x4xi32>
    %20 = stablehlo.compare EQ, %18, %19, SIGNED : (tensor<2x4xi32>, tensor<2x4xi32>) -> tensor<2x4xi1>
    %21 = stablehlo.and %17, %20 : tensor<2x4xi1>
    %22 = stablehlo.convert %21 : (tensor<2x4xi1>) -> tensor<2x4xf64>
    %cst_12 = stablehlo.constant dense<2.000000e+00> : tensor<f64>
    %23 = stablehlo.divide %arg0, %cst_12 : tensor<f64>
    %24 = stablehlo.cosine %23 : tensor<f64>
    %cst_13 = stablehlo.constant dense<2.000000e+00> : tensor<f64>
    %25 = stablehlo.divide %arg0, %cst_13 : tensor<f64>
    %26 = stablehlo.sine %25 : tensor<f64>
    %27 = stablehlo.convert %24 : (tensor<f64>) -> tensor<complex<f64>>
    %cst_14 = stablehlo.constant dense<(1.000000e+00,0.000000e+00)> : tensor<complex<f64>>
    %28 = stablehlo.multiply %cst_14, %27 : tensor<complex<f64>>
    %29 = stablehlo.convert %26 : (tensor<f64>) -> tensor<complex<f64>>
    %cst_15 = stablehlo.constant dense<(-0.000000e+00,-1.000000e+00)> : tensor<complex<f64>>
    %30 = stablehlo.multiply %cst_15, %29 : tensor<complex<f64>>
    %31 = stablehlo.broadcast_in_dim %28, dims = [] : (tensor<complex<f64>>) -> tensor<1xcomplex<f64>>
    %32 = stablehlo.broadcast_in_dim %30, dims = [] : (tensor<complex<f64>>) -> tensor<1xcomplex<f64>>
    %33 = stablehlo.concatenate %31, %32, dim = 0 : (tensor<1xcomplex<f64>>, tensor<1xcomplex<f64>>) -> tensor<2xcomplex<f64>>
    %34 = stablehlo.broadcast_in_dim %30, dims = [] : (tensor<complex<f64>>) -> tensor<1xcomplex<f64>>
    %35 = stablehlo.broadcast_in_dim %28, dims = [] : (tensor<complex<f64>>) -> tensor<1xcomplex<f64>>
    %36 = stablehlo.concatenate %34, %35, dim = 0 : (tensor<1xcomplex<f64>>, tensor<1xcomplex<f64>>) -> tensor<2xcomplex<f64>>
    %37 = stablehlo.broadcast_in_dim %33, dims = [1] : (tensor<2xcomplex<f64>>) -> tensor<1x2xcomplex<f64>>
    %38 = stablehlo.broadcast_in_dim %36, dims = [1] : (tensor<2xcomplex<f64>>) -> tensor<1x2xcomplex<f64>>
    %39 = stablehlo.concatenate %37, %38, dim = 0 : (tensor<1x2xcomplex<f64>>, tensor<1x2xcomplex<f64>>) -> tensor<2x2xcomplex<f64>>
    %40 = stablehlo.broadcast_in_dim %39, dims = [1, 2] : (tensor<2x2xcomplex<f64>>) -> tensor<1x2x2xcomplex<f64>>
    %41 = stablehlo.convert %40 : tensor<1x2x2xcomplex<f64>>
    %c_16 = stablehlo.constant dense<1> : tensor<i64>
    %42 = stablehlo.broadcast_in_dim %c_16, dims = [] : (tensor<i64>) -> tensor<1xi64>
    %43 = stablehlo.add %c, %42 : tensor<1xi64>
    %44 = stablehlo.select %c_0, %43, %c : tensor<1xi1>, tensor<1xi64>
    %45 = stablehlo.convert %44 : (tensor<1xi64>) -> tensor<1xi32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0] : (tensor<1xi32>) -> tensor<1x1xi32>
    %47 = "stablehlo.gather"(%41, %46) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 2, 2>}> : (tensor<1x2x2xcomplex<f64>>, tensor<1x1xi32>) -> tensor<1x2x2xcomplex<f64>>
    %48 = stablehlo.reshape %cst : (tensor<1x4x2xcomplex<f64>>) -> tensor<4x2xcomplex<f64>>
    %49 = stablehlo.reshape %47 : (tensor<1x2x2xcomplex<f64>>) -> tensor<2x2xcomplex<f64>>
    %50 = stablehlo.dot_general %48, %49, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x2xcomplex<f64>>, tensor<2x2xcomplex<f64>>) -> tensor<4x2xcomplex<f64>>
    %51 = stablehlo.broadcast_in_dim %50, dims = [1, 2] : (tensor<4x2xcomplex<f64>>) -> tensor<1x4x2xcomplex<f64>>
    %52 = stablehlo.transpose %cst, dims = [0, 2, 1] : (tensor<1x4x2xcomplex<f64>>) -> tensor<1x2x4xcomplex<f64>>
    %53 = stablehlo.reshape %51 : (tensor<1x4x2xcomplex<f64>>) -> tensor<4x2xcomplex<f64>>
    %54 = stablehlo.reshape %52 : (tensor<1x2x4xcomplex<f64>>) -> tensor<2x4xcomplex<f64>>
    %55 = stablehlo.dot_general %53, %54, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x2xcomplex<f64>>, tensor<2x4xcomplex<f64>>) -> tensor<4x4xcomplex<f64>>
    %56 = stablehlo.broadcast_in_dim %55, dims = [1, 2] : (tensor<4x4xcomplex<f64>>) -> tensor<1x4x4xcomplex<f64>>
    %c_17 = stablehlo.constant dense<0> : tensor<i64>
    %57 = call @_where(%c_1, %56, %c_17) : (tensor<1x4x4xi1>, tensor<1x4x4xcomplex<f64>>, tensor<i64>) -> tensor<1x4x4xcomplex<f64>>
    %58 = stablehlo.concatenate %0, %57, dim = 0 : (tensor<1x4x4xcomplex<f64>>, tensor<1x4x4xcomplex<f64>>) -> tensor<2x4x4xcomplex<f64>>
    %c_18 = stablehlo.constant dense<2> : tensor<i64>
    %59 = stablehlo.broadcast_in_dim %c_18, dims = [] : (tensor<i64>) -> tensor<1x1xi64>
    %60 = stablehlo.add %c_3, %59 : tensor<1x1xi64>
    %61 = stablehlo.select %c_4, %60, %c_3 : tensor<1x1xi1>, tensor<1x1xi64>
    %62 = stablehlo.convert %61 : (tensor<1x1xi64>) -> tensor<1x1xi32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0, 1] : (tensor<1x1xi32>) -> tensor<1x1x1xi32>
    %64 = "stablehlo.gather"(%58, %63) <{dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4, 4>}> : (tensor<2x4x4xcomplex<f64>>, tensor<1x1x1xi32>) -> tensor<1x1x4x4xcomplex<f64>>
    %65 = stablehlo.reshape %64 : (tensor<1x1x4x4xcomplex<f64>>) -> tensor<1x4x4xcomplex<f64>>
    %66 = stablehlo.real %65 : (tensor<1x4x4xcomplex<f64>>) -> tensor<1x4x4xf64>
    %67 = stablehlo.imag %65 : (tensor<1x4x4xcomplex<f64>>) -> tensor<1x4x4xf64>
    %68 = stablehlo.negate %67 : tensor<1x4x4xf64>
    %69 = stablehlo.concatenate %66, %68, dim = 2 : (tensor<1x4x4xf64>, tensor<1x4x4xf64>) -> tensor<1x4x8xf64>
    %70 = stablehlo.concatenate %67, %66, dim = 2 : (tensor<1x4x4xf64>, tensor<1x4x4xf64>) -> tensor<1x4x8xf64>
    %71 = stablehlo.concatenate %69, %70, dim = 1 : (tensor<1x4x8xf64>, tensor<1x4x8xf64>) -> tensor<1x8x8xf64>
    %72 = stablehlo.slice %71 [0:1, 0:8, 0:8] : (tensor<1x8x8xf64>) -> tensor<1x8x8xf64>
    %73 = stablehlo.reshape %72 : (tensor<1x8x8xf64>) -> tensor<8x8xf64>
    %74 = stablehlo.reshape %22 : (tensor<2x4xf64>) -> tensor<8x1xf64>
    %75 = stablehlo.dot_general %73, %74, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<8x8xf64>, tensor<8x1xf64>) -> tensor<8x1xf64>
    %76 = stablehlo.reshape %75 : (tensor<8x1xf64>) -> tensor<2x4xf64>
    %c_19 = stablehlo.constant dense<1> : tensor<ui32>
    %77 = call @_threefry_fold_in(%12, %c_19) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %78 = stablehlo.multiply %76, %76 : tensor<2x4xf64>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %79 = stablehlo.reduce(%78 init: %cst_20) applies stablehlo.add across dimensions = [0] : (tensor<2x4xf64>, tensor<f64>) -> tensor<4xf64>
    %80 = stablehlo.broadcast_in_dim %79, dims = [1] : (tensor<4xf64>) -> tensor<1x4xf64>
    %81 = stablehlo.reshape %80 : (tensor<1x4xf64>) -> tensor<1x4x1xf64>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %82 = stablehlo.reduce(%81 init: %cst_21) applies stablehlo.add across dimensions = [0, 2] : (tensor<1x4x1xf64>, tensor<f64>) -> tensor<4xf64>
    %83 = call @cumsum(%82) : (tensor<4xf64>) -> tensor<4xf64>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %cst_23 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %84 = call @_uniform(%77, %cst_22, %cst_23) : (tensor<2xui32>, tensor<f64>, tensor<f64>) -> tensor<40xf64>
    %85 = stablehlo.slice %83 [3:4] : (tensor<4xf64>) -> tensor<1xf64>
    %86 = stablehlo.reshape %85 : (tensor<1xf64>) -> tensor<f64>
    %87 = stablehlo.broadcast_in_dim %86, dims = [] : (tensor<f64>) -> tensor<40xf64>
    %88 = stablehlo.multiply %84, %87 : tensor<40xf64>
    %89 = call @searchsorted(%83, %88) : (tensor<4xf64>, tensor<40xf64>) -> tensor<40xi32>
    %c_24 = stablehlo.constant dense<3> : tensor<i32>
    %90 = stablehlo.broadcast_in_dim %c_24, dims = [] : (tensor<i32>) -> tensor<40xi32>
    %91 = stablehlo.minimum %89, %90 : tensor<40xi32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [0] : (tensor<40xi32>) -> tensor<40x1xi32>
    %93 = stablehlo.convert %92 : (tensor<40x1xi32>) -> tensor<40x1xi64>
    %94 = stablehlo.broadcast_in_dim %c_5, dims = [1] : (tensor<2xi64>) -> tensor<1x2xi64>
    %95 = stablehlo.broadcast_in_dim %93, dims = [0, 1] : (tensor<40x1xi64>) -> tensor<40x2xi64>
    %96 = stablehlo.broadcast_in_dim %94, dims = [0, 1] : (tensor<1x2xi64>) -> tensor<40x2xi64>
    %97 = stablehlo.shift_right_arithmetic %95, %96 : tensor<40x2xi64>
    %c_25 = stablehlo.constant dense<1> : tensor<i64>
    %98 = stablehlo.broadcast_in_dim %c_25, dims = [] : (tensor<i64>) -> tensor<40x2xi64>
    %99 = stablehlo.and %97, %98 : tensor<40x2xi64>
    %c_26 = stablehlo.constant dense<2> : tensor<i64>
    %100 = stablehlo.broadcast_in_dim %c_26, dims = [] : (tensor<i64>) -> tensor<1xi64>
    %101 = stablehlo.add %c_6, %100 : tensor<1xi64>
    %102 = stablehlo.select %c_7, %101, %c_6 : tensor<1xi1>, tensor<1xi64>
    %103 = stablehlo.convert %102 : (tensor<1xi64>) -> tensor<1xi32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0] : (tensor<1xi32>) -> tensor<1x1xi32>
    %105 = "stablehlo.gather"(%99, %104) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 40, 1>}> : (tensor<40x2xi64>, tensor<1x1xi32>) -> tensor<40x1xi64>
    %106 = stablehlo.reshape %14 : (tensor<40xi1>) -> tensor<40x1xi1>
    %c_27 = stablehlo.constant dense<0> : tensor<i64>
    %107 = stablehlo.broadcast_in_dim %c_27, dims = [] : (tensor<i64>) -> tensor<40x1xi64>
    %108 = call @_where_8(%106, %105, %107) : (tensor<40x1xi1>, tensor<40x1xi64>, tensor<40x1xi64>) -> tensor<40x1xi64>
    %109 = stablehlo.multiply %76, %76 : tensor<2x4xf64>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %110 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f64>) -> tensor<2x4xf64>
    %111 = stablehlo.multiply %110, %110 : tensor<2x4xf64>
    %112 = stablehlo.add %109, %111 : tensor<2x4xf64>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %113 = stablehlo.reduce(%112 init: %cst_29) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf64>, tensor<f64>) -> tensor<f64>
    %114 = "callback.call"(%113) {callee = @draw_check, kind = "pure"} : (tensor<f64>) -> tensor<i1>
    %c_30 = stablehlo.constant dense<-1> : tensor<i64>
    %115 = call @_where_9(%114, %108, %c_30) : (tensor<i1>, tensor<40x1xi64>, tensor<i64>) -> tensor<40x1xi64>
    return %115 : tensor<40x1xi64>
  }
  func.func private @_threefry_fold_in(%arg0: tensor<2xui32>, %arg1: tensor<ui32>) -> tensor<2xui32> {
    %c = stablehlo.constant dense<32> : tensor<ui32>
    %0 = stablehlo.shift_right_logical %arg1, %c : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %c_0 = stablehlo.constant dense<4294967295> : tensor<ui32>
    %2 = stablehlo.and %arg1, %c_0 : tensor<ui32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %4 = stablehlo.concatenate %1, %3, dim = 0 : (tensor<1xui32>, tensor<1xui32>) -> tensor<2xui32>
    %5 = stablehlo.slice %arg0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %6 = stablehlo.reshape %5 : (tensor<1xui32>) -> tensor<ui32>
    %7 = stablehlo.slice %arg0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %8 = stablehlo.reshape %7 : (tensor<1xui32>) -> tensor<ui32>
    %9 = stablehlo.slice %4 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %10 = stablehlo.slice %4 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %11:2 = call @threefry2x32(%6, %8, %9, %10) : (tensor<ui32>, tensor<ui32>, tensor<1xui32>, tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>)
    %12 = stablehlo.concatenate %11#0, %11#1, dim = 0 : (tensor<1xui32>, tensor<1xui32>) -> tensor<2xui32>
    return %12 : tensor<2xui32>
  }
  func.func private @threefry2x32(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<1xui32>, %arg3: tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.xor %0, %c_1 : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<1xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<1xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i64>
    %c_3 = stablehlo.constant dense<0> : tensor<i64>
    %6:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %3, %iterArg_6 = %5, %iterArg_7 = %arg1, %iterArg_8 = %1, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i64>, tensor<i64>, tensor<1xui32>, tensor<1xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i64>
      %7 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @closed_call_0(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i64>, tensor<1xui32>, tensor<1xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i64>, tensor<1xui32>, tensor<1xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i64>
      %8 = stablehlo.add %iterArg, %c_12 : tensor<i64>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i64>, tensor<i64>, tensor<1xui32>, tensor<1xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<1xui32>, tensor<1xui32>
  }
  func.func private @closed_call_0(%arg0: tensor<i64>, %arg1: tensor<1xui32>, %arg2: tensor<1xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i64>, tensor<1xui32>, tensor<1xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i64>
    %0 = stablehlo.add %arg0, %c : tensor<i64>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<1xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<1xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<1xui32>
    %9 = stablehlo.or %5, %8 : tensor<1xui32>
    %10 = stablehlo.xor %3, %9 : tensor<1xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<1xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<1xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<1xui32>
    %19 = stablehlo.or %15, %18 : tensor<1xui32>
    %20 = stablehlo.xor %13, %19 : tensor<1xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<1xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<1xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<1xui32>
    %29 = stablehlo.or %25, %28 : tensor<1xui32>
    %30 = stablehlo.xor %23, %29 : tensor<1xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<1xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<1xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<1xui32>
    %39 = stablehlo.or %35, %38 : tensor<1xui32>
    %40 = stablehlo.xor %33, %39 : tensor<1xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %42 = stablehlo.add %33, %41 : tensor<1xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %44 = stablehlo.add %40, %43 : tensor<1xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i64>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i64>
    %46 = stablehlo.convert %45 : (tensor<i64>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %48 = stablehlo.add %44, %47 : tensor<1xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i64>, tensor<1xui32>, tensor<1xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_where(%arg0: tensor<1x4x4xi1>, %arg1: tensor<1x4x4xcomplex<f64>>, %arg2: tensor<i64>) -> tensor<1x4x4xcomplex<f64>> {
    %0 = stablehlo.convert %arg2 : (tensor<i64>) -> tensor<complex<f64>>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<complex<f64>>) -> tensor<1x4x4xcomplex<f64>>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<1x4x4xi1>, tensor<1x4x4xcomplex<f64>>
    return %2 : tensor<1x4x4xcomplex<f64>>
  }
  func.func private @cumsum(%arg0: tensor<4xf64>) -> tensor<4xf64> {
    %0 = call @cumsum_1(%arg0) : (tensor<4xf64>) -> tensor<4xf64>
    return %0 : tensor<4xf64>
  }
  func.func private @cumsum_1(%arg0: tensor<4xf64>) -> tensor<4xf64> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<f64>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1>, padding = dense<[[3, 0]]> : tensor<1x2xi64>, window_dilations = array<i64: 1>, window_dimensions = array<i64: 4>, window_strides = array<i64: 1>}> ({
    ^bb0(%arg1: tensor<f64>, %arg2: tensor<f64>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<f64>
      stablehlo.return %2 : tensor<f64>
    }) : (tensor<4xf64>, tensor<f64>) -> tensor<4xf64>
    return %1 : tensor<4xf64>
  }
  func.func private @_uniform(%arg0: tensor<2xui32>, %arg1: tensor<f64>, %arg2: tensor<f64>) -> tensor<40xf64> {
    %0 = stablehlo.convert %arg1 : tensor<f64>
    %1 = stablehlo.convert %arg2 : tensor<f64>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<1xf64>
    %3 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f64>) -> tensor<1xf64>
    %4 = stablehlo.slice %arg0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %5 = stablehlo.reshape %4 : (tensor<1xui32>) -> tensor<ui32>
    %6 = stablehlo.slice %arg0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %7 = stablehlo.reshape %6 : (tensor<1xui32>) -> tensor<ui32>
    %8 = stablehlo.iota dim = 0 : tensor<40xui64>
    %c = stablehlo.constant dense<1> : tensor<ui64>
    %9 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<40xui64>
    %10 = stablehlo.multiply %9, %8 : tensor<40xui64>
    %c_0 = stablehlo.constant dense<32> : tensor<ui64>
    %11 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<40xui64>
    %12 = stablehlo.shift_right_logical %10, %11 : tensor<40xui64>
    %13 = stablehlo.convert %10 : (tensor<40xui64>) -> tensor<40xui32>
    %14 = stablehlo.convert %12 : (tensor<40xui64>) -> tensor<40xui32>
    %15:2 = call @threefry2x32_2(%5, %7, %14, %13) : (tensor<ui32>, tensor<ui32>, tensor<40xui32>, tensor<40xui32>) -> (tensor<40xui32>, tensor<40xui32>)
    %16 = stablehlo.convert %15#0 : (tensor<40xui32>) -> tensor<40xui64>
    %17 = stablehlo.convert %15#1 : (tensor<40xui32>) -> tensor<40xui64>
    %c_1 = stablehlo.constant dense<32> : tensor<ui64>
    %18 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<40xui64>
    %19 = stablehlo.shift_left %16, %18 : tensor<40xui64>
    %20 = stablehlo.or %19, %17 : tensor<40xui64>
    %c_2 = stablehlo.constant dense<12> : tensor<ui64>
    %21 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui64>) -> tensor<40xui64>
    %22 = stablehlo.shift_right_logical %20, %21 : tensor<40xui64>
    %c_3 = stablehlo.constant dense<4607182418800017408> : tensor<ui64>
    %23 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui64>) -> tensor<40xui64>
    %24 = stablehlo.or %22, %23 : tensor<40xui64>
    %25 = stablehlo.bitcast_convert %24 : (tensor<40xui64>) -> tensor<40xf64>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %26 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<40xf64>
    %27 = stablehlo.subtract %25, %26 : tensor<40xf64>
    %28 = stablehlo.subtract %3, %2 : tensor<1xf64>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0] : (tensor<1xf64>) -> tensor<40xf64>
    %30 = stablehlo.multiply %27, %29 : tensor<40xf64>
    %31 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<1xf64>) -> tensor<40xf64>
    %32 = stablehlo.add %30, %31 : tensor<40xf64>
    %33 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<1xf64>) -> tensor<40xf64>
    %34 = stablehlo.maximum %33, %32 : tensor<40xf64>
    return %34 : tensor<40xf64>
  }
  func.func private @threefry2x32_2(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<40xui32>, %arg3: tensor<40xui32>) -> (tensor<40xui32>, tensor<40xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.xor %0, %c_1 : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<40xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<40xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i64>
    %c_3 = stablehlo.constant dense<0> : tensor<i64>
    %6:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %3, %iterArg_6 = %5, %iterArg_7 = %arg1, %iterArg_8 = %1, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i64>, tensor<i64>, tensor<40xui32>, tensor<40xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i64>
      %7 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @closed_call_3(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i64>, tensor<40xui32>, tensor<40xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i64>, tensor<40xui32>, tensor<40xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i64>
      %8 = stablehlo.add %iterArg, %c_12 : tensor<i64>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i64>, tensor<i64>, tensor<40xui32>, tensor<40xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<40xui32>, tensor<40xui32>
  }
  func.func private @closed_call_3(%arg0: tensor<i64>, %arg1: tensor<40xui32>, %arg2: tensor<40xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i64>, tensor<40xui32>, tensor<40xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i64>
    %0 = stablehlo.add %arg0, %c : tensor<i64>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<40xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<40xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<40xui32>
    %9 = stablehlo.or %5, %8 : tensor<40xui32>
    %10 = stablehlo.xor %3, %9 : tensor<40xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<40xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<40xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<40xui32>
    %19 = stablehlo.or %15, %18 : tensor<40xui32>
    %20 = stablehlo.xor %13, %19 : tensor<40xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<40xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<40xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<40xui32>
    %29 = stablehlo.or %25, %28 : tensor<40xui32>
    %30 = stablehlo.xor %23, %29 : tensor<40xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<40xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<40xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<40xui32>
    %39 = stablehlo.or %35, %38 : tensor<40xui32>
    %40 = stablehlo.xor %33, %39 : tensor<40xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %42 = stablehlo.add %33, %41 : tensor<40xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %44 = stablehlo.add %40, %43 : tensor<40xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i64>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i64>
    %46 = stablehlo.convert %45 : (tensor<i64>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %48 = stablehlo.add %44, %47 : tensor<40xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i64>, tensor<40xui32>, tensor<40xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @searchsorted(%arg0: tensor<4xf64>, %arg1: tensor<40xf64>) -> tensor<40xi32> {
    %0 = call @_searchsorted_scan_impl(%arg0, %arg1) : (tensor<4xf64>, tensor<40xf64>) -> tensor<40xi32>
    return %0 : tensor<40xi32>
  }
  func.func private @_searchsorted_scan_impl(%arg0: tensor<4xf64>, %arg1: tensor<40xf64>) -> tensor<40xi32> {
    %0 = call @_searchsorted_scan_impl_4(%arg0, %arg1) : (tensor<4xf64>, tensor<40xf64>) -> tensor<40xi32>
    return %0 : tensor<40xi32>
  }
  func.func private @_searchsorted_scan_impl_4(%arg0: tensor<4xf64>, %arg1: tensor<40xf64>) -> tensor<40xi32> {
    %c = stablehlo.constant dense<0> : tensor<ui32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %c_0 = stablehlo.constant dense<4> : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %c_1 = stablehlo.constant dense<0> : tensor<i64>
    %2:5 = stablehlo.while(%iterArg = %arg0, %iterArg_2 = %arg1, %iterArg_3 = %c_1, %iterArg_4 = %0, %iterArg_5 = %1) : tensor<4xf64>, tensor<40xf64>, tensor<i64>, tensor<40xui32>, tensor<40xui32>
    cond {
      %c_6 = stablehlo.constant dense<3> : tensor<i64>
      %4 = stablehlo.compare LT, %iterArg_3, %c_6, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %4:2 = func.call @closed_call_5(%iterArg, %iterArg_2, %iterArg_4, %iterArg_5) : (tensor<4xf64>, tensor<40xf64>, tensor<40xui32>, tensor<40xui32>) -> (tensor<40xui32>, tensor<40xui32>)
      %c_6 = stablehlo.constant dense<1> : tensor<i64>
      %5 = stablehlo.add %iterArg_3, %c_6 : tensor<i64>
      stablehlo.return %iterArg, %iterArg_2, %5, %4#0, %4#1 : tensor<4xf64>, tensor<40xf64>, tensor<i64>, tensor<40xui32>, tensor<40xui32>
    }
    %3 = stablehlo.convert %2#4 : (tensor<40xui32>) -> tensor<40xi32>
    return %3 : tensor<40xi32>
  }
  func.func private @closed_call_5(%arg0: tensor<4xf64>, %arg1: tensor<40xf64>, %arg2: tensor<40xui32>, %arg3: tensor<40xui32>) -> (tensor<40xui32>, tensor<40xui32>) {
    %0 = stablehlo.subtract %arg3, %arg2 : tensor<40xui32>
    %c = stablehlo.constant dense<2> : tensor<i64>
    %1 = call @floor_divide(%0, %c) : (tensor<40xui32>, tensor<i64>) -> tensor<40xui32>
    %2 = stablehlo.add %arg2, %1 : tensor<40xui32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<40xui32>) -> tensor<40x1xui32>
    %4 = "stablehlo.gather"(%arg0, %3) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<4xf64>, tensor<40x1xui32>) -> tensor<40x1xf64>
    %5 = stablehlo.reshape %4 : (tensor<40x1xf64>) -> tensor<40xf64>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %6 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<40xf64>
    %7 = stablehlo.compare EQ, %arg1, %6, FLOAT : (tensor<40xf64>, tensor<40xf64>) -> tensor<40xi1>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<40xf64>
    %9 = stablehlo.select %7, %8, %arg1 : tensor<40xi1>, tensor<40xf64>
    %10 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<40xf64>, tensor<40xf64>) -> tensor<40xi1>
    %cst_1 = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %11 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f64>) -> tensor<40xf64>
    %12 = stablehlo.select %10, %11, %9 : tensor<40xi1>, tensor<40xf64>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %13 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f64>) -> tensor<40xf64>
    %14 = stablehlo.compare EQ, %5, %13, FLOAT : (tensor<40xf64>, tensor<40xf64>) -> tensor<40xi1>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %15 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f64>) -> tensor<40xf64>
    %16 = stablehlo.select %14, %15, %5 : tensor<40xi1>, tensor<40xf64>
    %17 = stablehlo.compare NE, %5, %5, FLOAT : (tensor<40xf64>, tensor<40xf64>) -> tensor<40xi1>
    %cst_4 = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %18 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f64>) -> tensor<40xf64>
    %19 = stablehlo.select %17, %18, %16 : tensor<40xi1>, tensor<40xf64>
    %20 = stablehlo.compare LT, %12, %19, TOTALORDER : (tensor<40xf64>, tensor<40xf64>) -> tensor<40xi1>
    %21 = stablehlo.select %20, %arg2, %2 : tensor<40xi1>, tensor<40xui32>
    %22 = stablehlo.select %20, %2, %arg3 : tensor<40xi1>, tensor<40xui32>
    return %21, %22 : tensor<40xui32>, tensor<40xui32>
  }
  func.func private @floor_divide(%arg0: tensor<40xui32>, %arg1: tensor<i64>) -> tensor<40xui32> {
    %0 = stablehlo.convert %arg1 : (tensor<i64>) -> tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %2 = stablehlo.divide %arg0, %1 : tensor<40xui32>
    return %2 : tensor<40xui32>
  }
  func.func private @_where_8(%arg0: tensor<40x1xi1>, %arg1: tensor<40x1xi64>, %arg2: tensor<40x1xi64>) -> tensor<40x1xi64> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<40x1xi1>, tensor<40x1xi64>
    return %0 : tensor<40x1xi64>
  }
  func.func private @_where_9(%arg0: tensor<i1>, %arg1: tensor<40x1xi64>, %arg2: tensor<i64>) -> tensor<40x1xi64> {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<i64>) -> tensor<40x1xi64>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<i1>, tensor<40x1xi64>
    return %1 : tensor<40x1xi64>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<3x40x1xi64>, %arg1: tensor<40x1xi64>, %arg2: tensor<i64>) -> tensor<3x40x1xi64> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<40x1xi64>) -> tensor<1x40x1xi64>
    %c = stablehlo.constant dense<0> : tensor<i64>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x40x1xi64>, tensor<1x40x1xi64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<3x40x1xi64>
    return %1 : tensor<3x40x1xi64>
  }
}
