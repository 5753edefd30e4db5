/* bellhop/native.h: the signature of C functions that bellhop.native_callback calls.
 *
 *     #include <bellhop/native.h>
 *
 *     BELLHOP_EXPORT double mean(BELLHOP_ARRAY(const double, x)) {
 *       double sum = 0;
 *       for (int64_t i = 0; i < x_length; ++i) sum += x[i];
 *       return sum / (double)x_length;
 *     }
 *
 * Compile it into a shared library with -I and the folder that
 * bellhop_runtime.include_dir() returns. The parameters are, in this order:
 *
 *   - the arguments. A scalar (an array without axes) of an integer, Boolean, float or
 *     double type is passed by value, with the C type of its dtype: float64 is double,
 *     int32 is int32_t, bool is bool. A complex scalar is passed as its address.
 *     An array is passed as the address of its first element and, as arrays= says,
 *         "pointer"   nothing else
 *         "length"    int64_t, the number of elements (the default)
 *         "shape"     int64_t, the number of axes, and const int64_t*, their sizes
 *         "strides"   as "shape", and const int64_t*, for each axis the bytes from one
 *                     element to the next
 *     Elements are in row-major order. complex128 is two doubles; float16 and
 *     bfloat16 have the bits of a uint16_t.
 *   - the results, as addresses that the function writes to, in the same forms. A
 *     result without axes is an address alone. If the only result is a real scalar,
 *     the function returns it instead (returns_value=False declares an address).
 *
 * The function must not keep an address, write to an argument, or throw a C++
 * exception. It runs without Python's GIL, on any thread, and several threads may run
 * it at once if several programs do, or if thread_safe=True was declared.
 */
#ifndef BELLHOP_NATIVE_H
#define BELLHOP_NATIVE_H

#ifdef __cplusplus
#include <cstdint>
#define BELLHOP_EXPORT extern "C" __attribute__((visibility("default")))
#else
#include <stdbool.h>
#include <stdint.h>
#define BELLHOP_EXPORT __attribute__((visibility("default")))
#endif

/* The parameters of an array, for each form of arrays=. */
#define BELLHOP_ARRAY(type, name) type *name, int64_t name##_length
#define BELLHOP_ARRAY_WITH_SHAPE(type, name) \
  type *name, int64_t name##_ndim, const int64_t *name##_shape
#define BELLHOP_ARRAY_WITH_STRIDES(type, name) \
  BELLHOP_ARRAY_WITH_SHAPE(type, name), const int64_t* name##_strides

#endif /* BELLHOP_NATIVE_H */
