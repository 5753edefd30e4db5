// native/native_function.cc: a C function that programs call without Python.
#include "native/native_function.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "arrays/numpy_arrays.h"
#include "arrays/small_array.h"
#include "interpreter/floating_point_environment.h"
#include "xla/ffi/api/c_api.h"

namespace bellhop {
namespace {

// Rows that a thread calls before it takes more, and the fewest that are worth a
// thread.
constexpr size_t kRowsOfThread = 512;

bool is_float(int dtype) {
  return dtype == XLA_FFI_DataType_F32 || dtype == XLA_FFI_DataType_F64;
}

Load load_of_value(int dtype) {
  switch (dtype) {
    case XLA_FFI_DataType_S8:
      return Load::kS8;
    case XLA_FFI_DataType_S16:
      return Load::kS16;
    case XLA_FFI_DataType_S32:
      return Load::kS32;
    case XLA_FFI_DataType_PRED:
    case XLA_FFI_DataType_U8:
      return Load::kU8;
    case XLA_FFI_DataType_U16:
      return Load::kU16;
    case XLA_FFI_DataType_U32:
    case XLA_FFI_DataType_F32:
      return Load::kU32;
    case XLA_FFI_DataType_S64:
    case XLA_FFI_DataType_U64:
    case XLA_FFI_DataType_F64:
      return Load::kWord;
    default:
      throw std::invalid_argument("a scalar of this type cannot be passed by value");
  }
}

Store store_of_value(int dtype) {
  switch (dtype) {
    case XLA_FFI_DataType_PRED:
      return Store::kBool;
    case XLA_FFI_DataType_S8:
    case XLA_FFI_DataType_U8:
      return Store::kByte;
    case XLA_FFI_DataType_S16:
    case XLA_FFI_DataType_U16:
      return Store::kHalf;
    case XLA_FFI_DataType_S32:
    case XLA_FFI_DataType_U32:
      return Store::kInt;
    case XLA_FFI_DataType_S64:
    case XLA_FFI_DataType_U64:
      return Store::kWord;
    case XLA_FFI_DataType_F32:
      return Store::kSingle;
    case XLA_FFI_DataType_F64:
      return Store::kDouble;
    default:
      throw std::invalid_argument("a value of this type cannot be returned");
  }
}

NativeCall make_call(const std::vector<NativeParameter>& parameters,
                     const std::vector<NativeOperand>& operands, size_t n_arguments,
                     bool returns_value) {
  NativeCall call;
  WordAssignment words;
  for (const NativeParameter& parameter : parameters) {
    using Kind = NativeParameter::Kind;
    switch (parameter.kind) {
      case Kind::kValue: {
        const int dtype = operands.at(parameter.operand).dtype;
        const uint8_t word =
            is_float(dtype) ? words.next_float() : words.next_integer();
        call.loads.push_back(
            {load_of_value(dtype), word, static_cast<uint32_t>(parameter.operand)});
        break;
      }
      case Kind::kPointer:
        operands.at(parameter.operand);
        call.loads.push_back({Load::kAddress, words.next_integer(),
                              static_cast<uint32_t>(parameter.operand)});
        break;
      case Kind::kConstant:
        call.constants.push_back({words.next_integer(), parameter.constants.at(0)});
        break;
      case Kind::kConstants:
        call.constants.push_back(
            {words.next_integer(),
             reinterpret_cast<int64_t>(parameter.constants.data())});
        break;
    }
  }
  if (returns_value) {
    if (operands.size() != n_arguments + 1) {
      throw std::invalid_argument("a function returns one value");
    }
    call.result = n_arguments;
    call.store = store_of_value(operands.back().dtype);
  }
  call.run_rows = words.choose_loop(call.store);
  return call;
}

}  // namespace

NativeFunction::NativeFunction(void* address, std::vector<NativeParameter> parameters,
                               std::vector<NativeOperand> operands, size_t n_arguments,
                               bool returns_value, std::vector<int64_t> batch_shape,
                               bool is_thread_safe)
    : address_(address),
      parameters_(std::move(parameters)),
      operands_(std::move(operands)),
      n_arguments_(n_arguments),
      batch_shape_(std::move(batch_shape)),
      is_thread_safe_(is_thread_safe),
      call_(make_call(parameters_, operands_, n_arguments, returns_value)) {
  for (const int64_t size : batch_shape_) rows_ *= static_cast<size_t>(size);
  for (const NativeOperand& operand : operands_) {
    std::vector<int64_t> strides(batch_shape_.size(), 0);
    int64_t bytes = operand.bytes;
    for (size_t axis = batch_shape_.size(); axis-- > 0;) {
      if (!operand.is_mapped.at(axis)) continue;
      strides[axis] = bytes;
      bytes *= batch_shape_[axis];
    }
    strides_.push_back(std::move(strides));
    sizes_.push_back(bytes);
  }
}

bool NativeFunction::fits(std::span<const BufferView> arguments,
                          std::span<const BufferView> results) const {
  if (arguments.size() != n_arguments_ ||
      arguments.size() + results.size() != operands_.size()) {
    return false;
  }
  for (size_t i = 0; i < operands_.size(); ++i) {
    const BufferView& view =
        i < n_arguments_ ? arguments[i] : results[i - n_arguments_];
    if (view.dtype != operands_[i].dtype ||
        size_bytes(view) != static_cast<size_t>(sizes_[i])) {
      return false;
    }
  }
  return true;
}

void NativeFunction::call(std::span<const BufferView> arguments,
                          std::span<const BufferView> results,
                          const Helpers& helpers) const {
  const DefaultFloatingPointEnvironment environment;
  SmallArray<char*, 8> data(operands_.size());
  for (size_t i = 0; i < operands_.size(); ++i) {
    data[i] = static_cast<char*>(
        (i < n_arguments_ ? arguments[i] : results[i - n_arguments_]).data);
  }
  char* const* const first = data.data();
  if (batch_shape_.empty()) return call_.run(address_, first, nullptr, 1);
  if (!is_thread_safe_ || helpers.threads == 1 || rows_ < 2 * kRowsOfThread) {
    call_rows(first, 0, rows_);
    return;
  }
  const size_t blocks = (rows_ + kRowsOfThread - 1) / kRowsOfThread;
  for_each_row(blocks, helpers, [&]() -> RowWorker {
    return [&, first](size_t block) {
      const DefaultFloatingPointEnvironment of_helper;
      const size_t begin = block * kRowsOfThread;
      call_rows(first, begin, std::min(begin + kRowsOfThread, rows_));
    };
  });
}

void NativeFunction::call_rows(char* const* data, size_t begin, size_t end) const {
  const size_t axes = batch_shape_.size();
  SmallArray<char*, 8> row(operands_.size());
  SmallArray<int64_t, 8> strides(operands_.size());
  while (begin < end) {
    // As many rows as are left along the innermost axis.
    const auto innermost = static_cast<size_t>(batch_shape_.back());
    const size_t count = std::min(end - begin, innermost - begin % innermost);
    for (size_t i = 0; i < operands_.size(); ++i) {
      size_t left = begin;
      int64_t offset = 0;
      for (size_t axis = axes; axis-- > 0;) {
        const auto size = static_cast<size_t>(batch_shape_[axis]);
        offset += static_cast<int64_t>(left % size) * strides_[i][axis];
        left /= size;
      }
      row[i] = data[i] + offset;
      strides[i] = strides_[i].back();
    }
    call_.run(address_, row.data(), strides.data(), count);
    begin += count;
  }
}

}  // namespace bellhop
