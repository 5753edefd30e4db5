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
      %2 = func.call @closed_call(%iterArg, %iterArg_2) : (tensor<i64>, tensor<f64>) -> tensor<40x1xi64>
      %3 = func.call @dynamic_update_index_in_dim(%iterArg_4, %2, %iterArg_3) : (tensor<3x40x1xi64>, tensor<40x1xi64>, tensor<i64>) -> tensor<3x40x1xi64>
      %c_5 = stablehlo.constant dense<1> : tensor<i64>
      %4 = stablehlo.add %iterArg_3, %c_5 : tensor<i64>
      stablehlo.return %iterArg, %iterArg_2, %4, %3 : tensor<i64>, tensor<f64>, tensor<i64>, tensor<3x40x1xi64>
    }
    return %1#3 : tensor<3x40x1xi64>
  }
  func.func private @closed_call(%arg0: tensor<i64>, %arg1: tensor<f64>) -> tensor<40x1xi64> {
    %0 = call @accelerate_cpu_1__bits(%arg1) : (tensor<f64>) -> tensor<40x1xi64>
    return %0 : tensor<40x1xi64>
  }
  func.func private @accelerate_cpu_1__bits(%arg0: tensor<f64>) -> tensor<40x1xi64> {
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
    %1 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %c_9 = stablehlo.constant dense<0> : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %c_9, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %c_10 = stablehlo.constant dense<0> : tensor<i32>
    %3 = "quantum.seed"() {circuit = 0 : i64} : () -> tensor<4xui32>
    %4 = stablehlo.slice %3 [0:2] : (tensor<4xui32>) -> tensor<2xui32>
    %5 = stablehlo.slice %3 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %6 = stablehlo.reshape %5 : (tensor<1xui32>) -> tensor<ui32>
    %7 = call @_threefry_fold_in(%4, %6) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %8 = stablehlo.slice %3 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %9 = stablehlo.reshape %8 : (tensor<1xui32>) -> tensor<ui32>
    %10 = call @_threefry_fold_in(%7, %9) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %c_11 = stablehlo.constant dense<0> : tensor<ui32>
    %11 = stablehlo.broadcast_in_dim %c_11, dims = [] : (tensor<ui32>) -> tensor<40xui32>
    %12 = stablehlo.compare EQ, %2, %11, UNSIGNED : (tensor<40xui32>, tensor<40xui32>) -> tensor<40xi1>
    %c_12 = stablehlo.constant dense<0> : tensor<i32>
    %13 = stablehlo.broadcast_in_dim %c_12, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %14 = stablehlo.iota dim = 1 : tensor<2x4xi32>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %15 = stablehlo.broadcast_in_dim %c_13, dims = [] : (tensor<i32>) -> tensor<2x4xi32>
    %16 = stablehlo.compare EQ, %14, %15, SIGNED : (tensor<2x4xi32>, tensor<2x4xi32>) -> tensor<2x4xi1>
    %17 = stablehlo.iota dim = 0 : tensor<2x4xi32>
    %c_14 = stablehlo.constant dense<0> : tensor<i32>
    %18 = stablehlo.broadcast_in_dim %c_14, dims = [] : (tensor<i32>) -> tensor<2x4xi32>
    %19 = stablehlo.compare EQ, %17, %18, SIGNED : (tensor<2x4xi32>, tensor<2x4xi32>) -> tensor<2x4xi1>
    %20 = stablehlo.and %16, %19 : tensor<2x4xi1>
    %21 = stablehlo.convert %20 : (tensor<2x4xi1>) -> tensor<2x4xf64>
    %cst_15 = stablehlo.constant dense<2.000000e+00> : tensor<f64>
    %22 = stablehlo.divide %arg0, %cst_15 : tensor<f64>
    %23 = stablehlo.cosine %22 : tensor<f64>
    %cst_16 = stablehlo.constant dense<2.000000e+00> : tensor<f64>
    %24 = stablehlo.divide %arg0, %cst_16 : tensor<f64>
    %25 = stablehlo.sine %24 : tensor<f64>
    %26 = stablehlo.convert %23 : (tensor<f64>) -> tensor<complex<f64>>
    %cst_17 = stablehlo.constant dense<(1.000000e+00,0.000000e+00)> : tensor<complex<f64>>
    %27 = stablehlo.multiply %cst_17, %26 : tensor<complex<f64>>
    %28 = stablehlo.convert %25 : (tensor<f64>) -> tensor<complex<f64>>
    %cst_18 = stablehlo.constant dense<(-0.000000e+00,-1.000000e+00)> : tensor<complex<f64>>
    %29 = stablehlo.multiply %cst_18, %28 : tensor<complex<f64>>
    %30 = stablehlo.broadcast_in_dim %27, dims = [] : (tensor<complex<f64>>) -> tensor<1xcomplex<f64>>
    %31 = stablehlo.broadcast_in_dim %29, dims = [] : (tensor<complex<f64>>) -> tensor<1xcomplex<f64>>
    %32 = stablehlo.concatenate %30, %31, dim = 0 : (tensor<1xcomplex<f64>>, tensor<1xcomplex<f64>>) -> tensor<2xcomplex<f64>>
    %33 = stablehlo.broadcast_in_dim %29, dims = [] : (tensor<complex<f64>>) -> tensor<1xcomplex<f64>>
    %34 = stablehlo.broadcast_in_dim %27, dims = [] : (tensor<complex<f64>>) -> tensor<1xcomplex<f64>>
    %35 = stablehlo.concatenate %33, %34, dim = 0 : (tensor<1xcomplex<f64>>, tensor<1xcomplex<f64>>) -> tensor<2xcomplex<f64>>
    %36 = stablehlo.broadcast_in_dim %32, dims = [1] : (tensor<2xcomplex<f64>>) -> tensor<1x2xcomplex<f64>>
    %37 = stablehlo.broadcast_in_dim %35, dims = [1] : (tensor<2xcomplex<f64>>) -> tensor<1x2xcomplex<f64>>
    %38 = stablehlo.concatenate %36, %37, dim = 0 : (tensor<1x2xcomplex<f64>>, tensor<1x2xcomplex<f64>>) -> tensor<2x2xcomplex<f64>>
    %39 = stablehlo.broadcast_in_dim %38, dims = [1, 2] : (tensor<2x2xcomplex<f64>>) -> tensor<1x2x2xcomplex<f64>>
    %40 = stablehlo.convert %39 : tensor<1x2x2xcomplex<f64>>
    %c_19 = stablehlo.constant dense<1> : tensor<i64>
    %41 = stablehlo.broadcast_in_dim %c_19, dims = [] : (tensor<i64>) -> tensor<1xi64>
    %42 = stablehlo.add %c, %41 : tensor<1xi64>
    %43 = stablehlo.select %c_0, %42, %c : tensor<1xi1>, tensor<1xi64>
    %44 = stablehlo.convert %43 : (tensor<1xi64>) -> tensor<1xi32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0] : (tensor<1xi32>) -> tensor<1x1xi32>
    %46 = "stablehlo.gather"(%40, %45) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 2, 2>}> : (tensor<1x2x2xcomplex<f64>>, tensor<1x1xi32>) -> tensor<1x2x2xcomplex<f64>>
    %47 = stablehlo.reshape %cst : (tensor<1x4x2xcomplex<f64>>) -> tensor<4x2xcomplex<f64>>
    %48 = stablehlo.reshape %46 : (tensor<1x2x2xcomplex<f64>>) -> tensor<2x2xcomplex<f64>>
    %49 = stablehlo.dot_general %47, %48, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x2xcomplex<f64>>, tensor<2x2xcomplex<f64>>) -> tensor<4x2xcomplex<f64>>
    %50 = stablehlo.broadcast_in_dim %49, dims = [1, 2] : (tensor<4x2xcomplex<f64>>) -> tensor<1x4x2xcomplex<f64>>
    %51 = stablehlo.transpose %cst, dims = [0, 2, 1] : (tensor<1x4x2xcomplex<f64>>) -> tensor<1x2x4xcomplex<f64>>
    %52 = stablehlo.reshape %50 : (tensor<1x4x2xcomplex<f64>>) -> tensor<4x2xcomplex<f64>>
    %53 = stablehlo.reshape %51 : (tensor<1x2x4xcomplex<f64>>) -> tensor<2x4xcomplex<f64>>
    %54 = stablehlo.dot_general %52, %53, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x2xcomplex<f64>>, tensor<2x4xcomplex<f64>>) -> tensor<4x4xcomplex<f64>>
    %55 = stablehlo.broadcast_in_dim %54, dims = [1, 2] : (tensor<4x4xcomplex<f64>>) -> tensor<1x4x4xcomplex<f64>>
    %c_20 = stablehlo.constant dense<0> : tensor<i64>
    %56 = call @_where(%c_1, %55, %c_20) : (tensor<1x4x4xi1>, tensor<1x4x4xcomplex<f64>>, tensor<i64>) -> tensor<1x4x4xcomplex<f64>>
    %57 = stablehlo.concatenate %0, %56, dim = 0 : (tensor<1x4x4xcomplex<f64>>, tensor<1x4x4xcomplex<f64>>) -> tensor<2x4x4xcomplex<f64>>
    %c_21 = stablehlo.constant dense<2> : tensor<i64>
    %58 = stablehlo.broadcast_in_dim %c_21, dims = [] : (tensor<i64>) -> tensor<1x1xi64>
    %59 = stablehlo.add %c_3, %58 : tensor<1x1xi64>
    %60 = stablehlo.select %c_4, %59, %c_3 : tensor<1x1xi1>, tensor<1x1xi64>
    %61 = stablehlo.convert %60 : (tensor<1x1xi64>) -> tensor<1x1xi32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1] : (tensor<1x1xi32>) -> tensor<1x1x1xi32>
    %63 = "stablehlo.gather"(%57, %62) <{dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4, 4>}> : (tensor<2x4x4xcomplex<f64>>, tensor<1x1x1xi32>) -> tensor<1x1x4x4xcomplex<f64>>
    %64 = stablehlo.reshape %63 : (tensor<1x1x4x4xcomplex<f64>>) -> tensor<1x4x4xcomplex<f64>>
    %65 = stablehlo.real %64 : (tensor<1x4x4xcomplex<f64>>) -> tensor<1x4x4xf64>
    %66 = stablehlo.imag %64 : (tensor<1x4x4xcomplex<f64>>) -> tensor<1x4x4xf64>
    %67 = stablehlo.negate %66 : tensor<1x4x4xf64>
    %68 = stablehlo.concatenate %65, %67, dim = 2 : (tensor<1x4x4xf64>, tensor<1x4x4xf64>) -> tensor<1x4x8xf64>
    %69 = stablehlo.concatenate %66, %65, dim = 2 : (tensor<1x4x4xf64>, tensor<1x4x4xf64>) -> tensor<1x4x8xf64>
    %70 = stablehlo.concatenate %68, %69, dim = 1 : (tensor<1x4x8xf64>, tensor<1x4x8xf64>) -> tensor<1x8x8xf64>
    %71 = stablehlo.slice %70 [0:1, 0:8, 0:8] : (tensor<1x8x8xf64>) -> tensor<1x8x8xf64>
    %72 = stablehlo.reshape %71 : (tensor<1x8x8xf64>) -> tensor<8x8xf64>
    %73 = stablehlo.reshape %21 : (tensor<2x4xf64>) -> tensor<8x1xf64>
    %74 = stablehlo.dot_general %72, %73, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<8x8xf64>, tensor<8x1xf64>) -> tensor<8x1xf64>
    %75 = stablehlo.reshape %74 : (tensor<8x1xf64>) -> tensor<2x4xf64>
    %c_22 = stablehlo.constant dense<1> : tensor<ui32>
    %76 = call @_threefry_fold_in(%10, %c_22) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %77 = stablehlo.multiply %75, %75 : tensor<2x4xf64>
    %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %78 = stablehlo.reduce(%77 init: %cst_23) applies stablehlo.add across dimensions = [0] : (tensor<2x4xf64>, tensor<f64>) -> tensor<4xf64>
    %79 = stablehlo.broadcast_in_dim %78, dims = [1] : (tensor<4xf64>) -> tensor<1x4xf64>
    %80 = stablehlo.reshape %79 : (tensor<1x4xf64>) -> tensor<1x4x1xf64>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %81 = stablehlo.reduce(%80 init: %cst_24) applies stablehlo.add across dimensions = [0, 2] : (tensor<1x4x1xf64>, tensor<f64>) -> tensor<4xf64>
    %82 = call @cumsum(%81) : (tensor<4xf64>) -> tensor<4xf64>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %cst_26 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %83 = call @_uniform(%76, %cst_25, %cst_26) : (tensor<2xui32>, tensor<f64>, tensor<f64>) -> tensor<40xf64>
    %84 = stablehlo.slice %82 [3:4] : (tensor<4xf64>) -> tensor<1xf64>
    %85 = stablehlo.reshape %84 : (tensor<1xf64>) -> tensor<f64>
    %86 = stablehlo.broadcast_in_dim %85, dims = [] : (tensor<f64>) -> tensor<40xf64>
    %87 = stablehlo.multiply %83, %86 : tensor<40xf64>
    %88 = call @searchsorted(%82, %87) : (tensor<4xf64>, tensor<40xf64>) -> tensor<40xi32>
    %c_27 = stablehlo.constant dense<3> : tensor<i32>
    %89 = stablehlo.broadcast_in_dim %c_27, dims = [] : (tensor<i32>) -> tensor<40xi32>
    %90 = stablehlo.minimum %88, %89 : tensor<40xi32>
    %c_28 = stablehlo.constant dense<0> : tensor<i32>
    %91 = stablehlo.broadcast_in_dim %c_28, dims = [] : (tensor<i32>) -> tensor<40xi32>
    %92 = stablehlo.compare LT, %90, %91, SIGNED : (tensor<40xi32>, tensor<40xi32>) -> tensor<40xi1>
    %c_29 = stablehlo.constant dense<4> : tensor<i32>
    %93 = stablehlo.broadcast_in_dim %c_29, dims = [] : (tensor<i32>) -> tensor<40xi32>
    %94 = stablehlo.add %90, %93 : tensor<40xi32>
    %95 = stablehlo.select %92, %94, %90 : tensor<40xi1>, tensor<40xi32>
    %96 = stablehlo.broadcast_in_dim %95, dims = [0] : (tensor<40xi32>) -> tensor<40x1xi32>
    %97 = "stablehlo.gather"(%81, %96) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<4xf64>, tensor<40x1xi32>) -> tensor<40xf64>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %98 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f64>) -> tensor<40xf64>
    %99 = stablehlo.compare GT, %97, %98, FLOAT : (tensor<40xf64>, tensor<40xf64>) -> tensor<40xi1>
    %100 = stablehlo.and %12, %99 : tensor<40xi1>
    %cst_31 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %101 = call @_where_6(%100, %97, %cst_31) : (tensor<40xi1>, tensor<40xf64>, tensor<f64>) -> tensor<40xf64>
    %cst_32 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %102 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f64>) -> tensor<40xf64>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %103 = call @_where_6(%12, %102, %cst_33) : (tensor<40xi1>, tensor<40xf64>, tensor<f64>) -> tensor<40xf64>
    %cst_34 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %104 = stablehlo.compare GT, %cst_34, %cst_35, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %cst_36 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %cst_37 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %105 = call @_where_7(%104, %cst_36, %cst_37) : (tensor<i1>, tensor<f64>, tensor<f64>) -> tensor<f64>
    %cst_38 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %106 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f64>) -> tensor<40xf64>
    %107 = stablehlo.divide %103, %106 : tensor<40xf64>
    %108 = stablehlo.broadcast_in_dim %90, dims = [0] : (tensor<40xi32>) -> tensor<40x1xi32>
    %109 = stablehlo.convert %108 : (tensor<40x1xi32>) -> tensor<40x1xi64>
    %110 = stablehlo.broadcast_in_dim %c_5, dims = [1] : (tensor<2xi64>) -> tensor<1x2xi64>
    %111 = stablehlo.broadcast_in_dim %109, dims = [0, 1] : (tensor<40x1xi64>) -> tensor<40x2xi64>
    %112 = stablehlo.broadcast_in_dim %110, dims = [0, 1] : (tensor<1x2xi64>) -> tensor<40x2xi64>
    %113 = stablehlo.shift_right_arithmetic %111, %112 : tensor<40x2xi64>
    %c_39 = stablehlo.constant dense<1> : tensor<i64>
    %114 = stablehlo.broadcast_in_dim %c_39, dims = [] : (tensor<i64>) -> tensor<40x2xi64>
    %115 = stablehlo.and %113, %114 : tensor<40x2xi64>
    %c_40 = stablehlo.constant dense<2> : tensor<i64>
    %116 = stablehlo.broadcast_in_dim %c_40, dims = [] : (tensor<i64>) -> tensor<1xi64>
    %117 = stablehlo.add %c_6, %116 : tensor<1xi64>
    %118 = stablehlo.select %c_7, %117, %c_6 : tensor<1xi1>, tensor<1xi64>
    %119 = stablehlo.convert %118 : (tensor<1xi64>) -> tensor<1xi32>
    %120 = stablehlo.broadcast_in_dim %119, dims = [0] : (tensor<1xi32>) -> tensor<1x1xi32>
    %121 = "stablehlo.gather"(%115, %120) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 40, 1>}> : (tensor<40x2xi64>, tensor<1x1xi32>) -> tensor<40x1xi64>
    %122 = stablehlo.reshape %12 : (tensor<40xi1>) -> tensor<40x1xi1>
    %c_41 = stablehlo.constant dense<0> : tensor<i64>
    %123 = stablehlo.broadcast_in_dim %c_41, dims = [] : (tensor<i64>) -> tensor<40x1xi64>
    %124 = call @_where_8(%122, %121, %123) : (tensor<40x1xi1>, tensor<40x1xi64>, tensor<40x1xi64>) -> tensor<40x1xi64>
    %125 = stablehlo.multiply %75, %75 : tensor<2x4xf64>
    %cst_42 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %126 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f64>) -> tensor<2x4xf64>
    %127 = stablehlo.multiply %126, %126 : tensor<2x4xf64>
    %128 = stablehlo.add %125, %127 : tensor<2x4xf64>
    %cst_43 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %129 = stablehlo.reduce(%128 init: %cst_43) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf64>, tensor<f64>) -> tensor<f64>
    %130 = stablehlo.multiply %75, %75 : tensor<2x4xf64>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %131 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f64>) -> tensor<2x4xf64>
    %132 = stablehlo.multiply %131, %131 : tensor<2x4xf64>
    %133 = stablehlo.add %130, %132 : tensor<2x4xf64>
    %cst_45 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %134 = stablehlo.reduce(%133 init: %cst_45) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf64>, tensor<f64>) -> tensor<f64>
    %135 = "callback.call"(%134) {callee = @draw_check, kind = "pure"} : (tensor<f64>) -> tensor<i1>
    %c_46 = stablehlo.constant dense<-1> : tensor<i64>
    %136 = call @_where_9(%135, %124, %c_46) : (tensor<i1>, tensor<40x1xi64>, tensor<i64>) -> tensor<40x1xi64>
    return %136 : tensor<40x1xi64>
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
  func.func private @_where_6(%arg0: tensor<40xi1>, %arg1: tensor<40xf64>, %arg2: tensor<f64>) -> tensor<40xf64> {
    %0 = stablehlo.convert %arg2 : tensor<f64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<40xf64>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<40xi1>, tensor<40xf64>
    return %2 : tensor<40xf64>
  }
  func.func private @_where_7(%arg0: tensor<i1>, %arg1: tensor<f64>, %arg2: tensor<f64>) -> tensor<f64> {
    %0 = stablehlo.convert %arg2 : tensor<f64>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<i1>, tensor<f64>
    return %1 : tensor<f64>
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
