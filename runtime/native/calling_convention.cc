// native/calling_convention.cc: call C functions whose signature is known only at run
// time.
#include "native/calling_convention.h"

#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "arrays/small_array.h"

namespace bellhop {
namespace {

template <typename T>
int64_t extended(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return static_cast<int64_t>(value);
}

int64_t loaded(Load load, const char* from) {
  switch (load) {
    case Load::kAddress:
      return std::bit_cast<int64_t>(from);
    case Load::kS8:
      return extended<int8_t>(from);
    case Load::kS16:
      return extended<int16_t>(from);
    case Load::kS32:
      return extended<int32_t>(from);
    case Load::kU8:
      return extended<uint8_t>(from);
    case Load::kU16:
      return extended<uint16_t>(from);
    case Load::kU32:
      return extended<uint32_t>(from);
    case Load::kWord:
      break;
  }
  return extended<int64_t>(from);
}

void store_integer(Store store, int64_t value, char* to) {
  switch (store) {
    case Store::kBool:
      *to = (value & 0xff) != 0;
      break;
    case Store::kByte:
      std::memcpy(to, &value, 1);
      break;
    case Store::kHalf:
      std::memcpy(to, &value, 2);
      break;
    case Store::kInt:
      std::memcpy(to, &value, 4);
      break;
    default:
      std::memcpy(to, &value, 8);
  }
}

template <size_t>
using Integer = int64_t;
template <size_t, typename T = double>
using Float = T;

// Calls a function with the first words of each sequence.
template <typename R, size_t... I, size_t... F, size_t... S>
[[gnu::always_inline]] inline R invoke(void* address, const int64_t* words,
                                       std::index_sequence<I...>,
                                       std::index_sequence<F...>,
                                       std::index_sequence<S...>) {
  using Function = R (*)(Integer<I>..., Float<F>..., Integer<S>...);
  return reinterpret_cast<Function>(address)(
      words[I]..., std::bit_cast<double>(words[kFloatWords + F])...,
      words[kStackBegin + S]...);
}

}  // namespace

// A parameter's word that differs between rows.
struct MovingWord {
  Load load;
  uint8_t word;
  const char* from;
  int64_t stride;
};

// The rows of one call from a program.
struct Rows {
  void* address;
  int64_t* words;
  MovingWord* moving;
  size_t n_moving;
  Store store;
  char* result;
  int64_t result_stride;
  size_t count;
};

namespace {

template <typename R, size_t kIntegers, size_t kFloats, size_t kStack>
void run_rows(const Rows& rows) {
  char* result = rows.result;
  for (size_t row = 0; row < rows.count; ++row) {
    for (size_t i = 0; i < rows.n_moving; ++i) {
      MovingWord& moving = rows.moving[i];
      rows.words[moving.word] = loaded(moving.load, moving.from);
      moving.from += moving.stride;
    }
    const auto call = [&] {
      return invoke<R>(rows.address, rows.words, std::make_index_sequence<kIntegers>{},
                       std::make_index_sequence<kFloats>{},
                       std::make_index_sequence<kStack>{});
    };
    if constexpr (std::is_void_v<R>) {
      call();
    } else {
      const R value = call();
      if constexpr (std::is_integral_v<R>) {
        store_integer(rows.store, value, result);
      } else {
        std::memcpy(result, &value, sizeof(R));
      }
      result += rows.result_stride;
    }
  }
}

template <typename R, size_t kIntegers>
RunRows loop_with_integers(size_t floats) {
  if (floats == 0) return run_rows<R, kIntegers, 0, 0>;
  if (floats == 1) return run_rows<R, kIntegers, 1, 0>;
  if (floats == 2) return run_rows<R, kIntegers, 2, 0>;
  if (floats <= 4) return run_rows<R, kIntegers, 4, 0>;
  return run_rows<R, kIntegers, kFloatRegisters, 0>;
}

template <typename R>
RunRows loop_returning(size_t integers, size_t floats, size_t stack) {
  if (stack > 0) return run_rows<R, kIntegerRegisters, kFloatRegisters, kStackWords>;
  if (integers == 0) return loop_with_integers<R, 0>(floats);
  if (integers <= 2) return loop_with_integers<R, 2>(floats);
  if (integers <= 4) return loop_with_integers<R, 4>(floats);
  return loop_with_integers<R, kIntegerRegisters>(floats);
}

// Calls of functions with as many parameters as `I`, all scalars of type T, that return
// a T.
template <typename T, size_t... I>
struct ScalarFunction {
  static constexpr size_t kResult = sizeof...(I);
  using Pointer = T (*)(Float<I, T>...);

  static T load(const char* from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }

  static void call(void* address, char* const* data) {
    const T returned = reinterpret_cast<Pointer>(address)(load(data[I])...);
    std::memcpy(data[kResult], &returned, sizeof(T));
  }

  static void run_rows(void* address, char* const* data, const int64_t* strides,
                       size_t rows) {
    const auto function = reinterpret_cast<Pointer>(address);
    const char* from[] = {data[I]...};
    char* result = data[kResult];
    for (size_t row = 0; row < rows; ++row) {
      const T returned = function(load(from[I])...);
      std::memcpy(result, &returned, sizeof(T));
      result += strides[kResult];
      ((from[I] += strides[I]), ...);
    }
  }

  static void set(NativeCall& call) {
    call.run_scalar_rows = run_rows;
    call.call_scalars = ScalarFunction::call;
  }
};

template <typename T>
void set_scalar_loops(NativeCall& call) {
  switch (call.loads.size()) {
    case 1:
      return ScalarFunction<T, 0>::set(call);
    case 2:
      return ScalarFunction<T, 0, 1>::set(call);
    case 3:
      return ScalarFunction<T, 0, 1, 2>::set(call);
    default:
      return;
  }
}

}  // namespace

void NativeCall::choose_loops(const WordAssignment& words) {
  run_rows = words.choose_loop(store);
  if (store != Store::kDouble && store != Store::kSingle) return;
  const Load load = store == Store::kDouble ? Load::kWord : Load::kU32;
  for (size_t i = 0; i < loads.size(); ++i) {
    // The parameters are floating-point operands of the result's size, in order.
    if (loads[i].operand != i || loads[i].word != kFloatWords + i ||
        loads[i].load != load) {
      return;
    }
  }
  if (!constants.empty() || result != loads.size()) return;
  if (store == Store::kDouble) {
    set_scalar_loops<double>(*this);
  } else {
    set_scalar_loops<float>(*this);
  }
}

void NativeCall::run(void* address, char* const* data, const int64_t* strides,
                     size_t rows) const {
  if (run_scalar_rows != nullptr) {
    static constexpr int64_t kNoStrides[kWords] = {};
    run_scalar_rows(address, data, strides == nullptr ? kNoStrides : strides, rows);
    return;
  }
  int64_t words[kWords];
  for (const ConstantWord& each : constants) words[each.word] = each.value;
  const size_t result_stride =
      strides == nullptr || store == Store::kNothing ? 0 : strides[result];
  SmallArray<MovingWord, 8> moving(strides == nullptr ? 0 : loads.size());
  size_t n_moving = 0;
  for (const LoadedWord& each : loads) {
    if (strides == nullptr || strides[each.operand] == 0) {
      words[each.word] = loaded(each.load, data[each.operand]);
    } else {
      moving[n_moving++] = {each.load, each.word, data[each.operand],
                            strides[each.operand]};
    }
  }
  run_rows({address, words, moving.data(), n_moving, store,
            store == Store::kNothing ? nullptr : data[result],
            static_cast<int64_t>(result_stride), rows});
}

RunRows WordAssignment::choose_loop(Store store) const {
  switch (store) {
    case Store::kNothing:
      return loop_returning<void>(integers_, floats_, stack_);
    case Store::kDouble:
      return loop_returning<double>(integers_, floats_, stack_);
    case Store::kSingle:
      return loop_returning<float>(integers_, floats_, stack_);
    default:
      return loop_returning<int64_t>(integers_, floats_, stack_);
  }
}

uint8_t WordAssignment::next_integer() {
  if (integers_ == kIntegerRegisters) return next_on_stack();
  return static_cast<uint8_t>(integers_++);
}

uint8_t WordAssignment::next_float() {
  if (floats_ == kFloatRegisters) return next_on_stack();
  return static_cast<uint8_t>(kFloatWords + floats_++);
}

uint8_t WordAssignment::next_on_stack() {
  if (stack_ == kStackWords) {
    throw std::invalid_argument(
        "the native function has too many parameters: this platform supports " +
        std::to_string(kIntegerRegisters) + " integers and addresses and " +
        std::to_string(kFloatRegisters) + " floating-point numbers in registers, and " +
        std::to_string(kStackWords) +
        " further parameters on the stack, got more. Pass several numbers in one "
        "array.");
  }
  return static_cast<uint8_t>(kStackBegin + stack_++);
}

}  // namespace bellhop
