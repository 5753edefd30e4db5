// native/native_function.cc: a C function that programs call without Python.
#include "native/native_function.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "arrays/small_array.h"
#include "interpreter/floating_point_environment.h"
#include "xla/ffi/api/c_api.h"

namespace bellhop {
namespace {

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
      throw std::invalid_argument(
          "bellhop: internal error: argument of a native function: XLA element type " +
          std::to_string(dtype) +
          " cannot be passed by value. Please report this as a bug in Bellhop.");
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
      throw std::invalid_argument(
          "bellhop: internal error: result of a native function: XLA element type " +
          std::to_string(dtype) +
          " cannot be returned. Please report this as a bug in Bellhop.");
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
      throw std::invalid_argument(
          "bellhop: internal error: native function that returns a value: expected 1 "
          "result, got " +
          std::to_string(operands.size() - n_arguments) +
          ". Please report this as a bug in Bellhop.");
    }
    call.result = n_arguments;
    call.store = store_of_value(operands.back().dtype);
  }
  call.choose_loops(words);
  return call;
}

}  // namespace

NativeFunction::NativeFunction(void* address, std::vector<NativeParameter> parameters,
                               std::vector<NativeOperand> operands, size_t n_arguments,
                               bool returns_value, std::vector<int64_t> batch_shape,
                               bool is_thread_safe, bool keeps_subnormals)
    : address_(address),
      parameters_(std::move(parameters)),
      operands_(std::move(operands)),
      n_arguments_(n_arguments),
      batch_shape_(std::move(batch_shape)),
      is_thread_safe_(is_thread_safe),
      keeps_subnormals_(keeps_subnormals),
      call_(make_call(parameters_, operands_, n_arguments, returns_value)) {
  for (const int64_t size : batch_shape_) rows_ *= static_cast<size_t>(size);
  for (const NativeOperand& operand : operands_) {
    std::vector<int64_t> strides(batch_shape_.size(), 0);
    int64_t elements = operand.elements;
    for (size_t axis = batch_shape_.size(); axis-- > 0;) {
      if (!operand.is_mapped.at(axis)) continue;
      strides[axis] = elements * operand.item_bytes;
      elements *= batch_shape_[axis];
    }
    strides_.push_back(std::move(strides));
    expected_.push_back({operand.dtype, elements});
  }
  if (batch_shape_.empty() && !keeps_subnormals_ && call_.call_scalars != nullptr) {
    scalar_call_ = {call_.call_scalars, address_, expected_.back().dtype,
                    static_cast<int64_t>(n_arguments_)};
  }
}

void NativeFunction::call(char* const* data, const Helpers& helpers) const {
  if (keeps_subnormals_) {
    const DefaultFloatingPointEnvironment environment;
    call_all(data, helpers);
  } else {
    call_all(data, helpers);
  }
}

void NativeFunction::call_all(char* const* data, const Helpers& helpers) const {
  if (batch_shape_.empty()) return call_.run(address_, data, nullptr, 1);
  if (helpers.threads == 1 || !shares_rows()) return call_rows(data, 0, rows_);
  const size_t blocks = (rows_ + kRowsOfThread - 1) / kRowsOfThread;
  // A helper thread computes in the floating-point mode of the calling thread.
  const FloatingPointMode::Bits mode = FloatingPointMode::read();
  for_each_row(blocks, helpers, [&]() -> RowWorker {
    return [&](size_t block) {
      const FloatingPointModeScope in_mode(mode);
      const size_t begin = block * kRowsOfThread;
      call_rows(data, begin, std::min(begin + kRowsOfThread, rows_));
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
