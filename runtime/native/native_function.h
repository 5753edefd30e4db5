// native/native_function.h: a C function that programs call without Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "native/calling_convention.h"
#include "threads/thread_team.h"

namespace bellhop {

// A C parameter, as the frontend describes it.
struct NativeParameter {
  enum class Kind : uint8_t {
    kValue,     // the scalar operand itself
    kPointer,   // the address of the operand's first element
    kConstant,  // an integer that is known when the program is traced, such as a length
    kConstants,  // the address of such integers, such as a shape
  };

  Kind kind;
  size_t operand;                  // of kValue and kPointer
  std::vector<int64_t> constants;  // of kConstant and kConstants
};

// An argument or a result of the function: the type of one call, and the axes of a
// batch that it has.
struct NativeOperand {
  int dtype;  // XLA_FFI_DataType
  int64_t elements;
  int64_t item_bytes;
  std::vector<bool> is_mapped;  // for each axis of the batch, the outermost first
};

// A function with its signature. A call of a batch calls it once for each row, in
// order, or on several threads if the function is thread-safe.
//
// Threading: immutable, so any number of threads may call at once; no call needs the
// GIL. Ownership: the creator keeps the code at the address loaded.
class NativeFunction {
 public:
  // `address` is the C function, and `parameters` are its parameters in order.
  // `operands` are the arguments, `n_arguments` of them, then the results. If
  // `returns_value`, the only result is the function's returned value, and no
  // parameter. `batch_shape` has the size of each axis of a batch, the outermost first;
  // it is empty for a single call. If `is_thread_safe`, several threads may call the
  // function at once for a batch. If `keeps_subnormals`, calls are made in the default
  // floating-point environment, not in XLA's.
  //
  // Throws std::invalid_argument if a call has more parameters than the platform's
  // registers and the supported part of the stack hold, or an operand does not exist.
  NativeFunction(void* address, std::vector<NativeParameter> parameters,
                 std::vector<NativeOperand> operands, size_t n_arguments,
                 bool returns_value, std::vector<int64_t> batch_shape,
                 bool is_thread_safe, bool keeps_subnormals);

  size_t n_arguments() const { return n_arguments_; }
  size_t n_operands() const { return operands_.size(); }
  // Whether a call may use helper threads: for a batch of a thread-safe function.
  bool shares_rows() const {
    return is_thread_safe_ && !batch_shape_.empty() && rows_ >= 2 * kRowsOfThread;
  }

  // Direct call of a function of scalars of one floating-point type, for a single row
  // and in XLA's floating-point environment. `call` is null for all other functions.
  struct ScalarCall {
    CallScalars call = nullptr;
    void* address = nullptr;
    int dtype = 0;  // of all operands
    int64_t n_arguments = 0;
  };
  const ScalarCall& scalar_call() const { return scalar_call_; }

  // Whether a buffer has the type and the size of an operand.
  bool fits(size_t operand, int dtype, const int64_t* dims, int64_t rank) const {
    int64_t elements = 1;
    for (int64_t axis = 0; axis < rank; ++axis) elements *= dims[axis];
    const Expected& expected = expected_[operand];
    return dtype == expected.dtype && elements == expected.elements;
  }

  // Calls the function for all rows. `data` has the address of each operand, each of
  // which must fit.
  void call(char* const* data, const Helpers& helpers) const;

 private:
  // Rows that a thread calls before it takes more, and the fewest that are worth a
  // thread.
  static constexpr size_t kRowsOfThread = 512;

  // Type and number of elements of an operand, of all rows.
  struct Expected {
    int dtype;
    int64_t elements;
  };

  void call_all(char* const* data, const Helpers& helpers) const;
  void call_rows(char* const* data, size_t begin, size_t end) const;

  ScalarCall scalar_call_;
  void* address_;
  std::vector<NativeParameter> parameters_;
  std::vector<NativeOperand> operands_;
  size_t n_arguments_;
  std::vector<int64_t> batch_shape_;
  bool is_thread_safe_;
  bool keeps_subnormals_;
  size_t rows_ = 1;
  std::vector<Expected> expected_;  // of each operand
  // For each operand, the bytes between rows along each axis of the batch.
  std::vector<std::vector<int64_t>> strides_;
  NativeCall call_;
};

}  // namespace bellhop
