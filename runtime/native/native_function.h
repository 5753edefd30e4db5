// native/native_function.h: a C function that programs call without Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arrays/buffer_view.h"
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
  int64_t bytes;
  std::vector<bool> is_mapped;  // for each axis of the batch, the outermost first
};

// A function with its signature. A call of a batch calls it once for each row, in
// order, or on several threads where the function is thread-safe.
//
// Threading: immutable, so any number of threads may call at once; no call needs the
// GIL. Ownership: whoever made it keeps the code at the address loaded.
class NativeFunction {
 public:
  // `operands` are the arguments, then the results. Where `returns_value`, the only
  // result is what the function returns, and no parameter.
  //
  // Throws std::invalid_argument where a call has more parameters than the platform's
  // registers and the supported part of the stack hold, or an operand does not exist.
  NativeFunction(void* address, std::vector<NativeParameter> parameters,
                 std::vector<NativeOperand> operands, size_t n_arguments,
                 bool returns_value, std::vector<int64_t> batch_shape,
                 bool is_thread_safe);

  // Whether buffers have the types and sizes that the function was described with.
  bool fits(std::span<const BufferView> arguments,
            std::span<const BufferView> results) const;

  // Calls the function for all rows. Requires `fits`.
  void call(std::span<const BufferView> arguments, std::span<const BufferView> results,
            const Helpers& helpers) const;

  bool is_thread_safe() const { return is_thread_safe_; }

 private:
  void call_rows(char* const* data, size_t begin, size_t end) const;

  void* address_;
  std::vector<NativeParameter> parameters_;
  std::vector<NativeOperand> operands_;
  size_t n_arguments_;
  std::vector<int64_t> batch_shape_;
  bool is_thread_safe_;
  size_t rows_ = 1;
  std::vector<int64_t> sizes_;  // bytes of each operand, of all rows
  // For each operand, the bytes between rows along each axis of the batch.
  std::vector<std::vector<int64_t>> strides_;
  NativeCall call_;
};

}  // namespace bellhop
