// native/calling_convention.h: call C functions whose signature is known only at run
// time.
//
// The calling conventions of System V (x86-64) and AArch64 pass integers and addresses
// in one sequence of registers and floating-point numbers in another, each in the order
// of the parameters, and further parameters on the stack, one word each. A function
// ignores registers for which it has no parameter. So a call loads the first registers
// of both sequences; the order of the parameters between the sequences does not matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bellhop {

#if defined(__x86_64__)
inline constexpr size_t kIntegerRegisters = 6;
#else
inline constexpr size_t kIntegerRegisters = 8;
#endif
inline constexpr size_t kFloatRegisters = 8;
// Apple's AArch64 packs parameters on the stack, which is not supported here.
#if defined(__APPLE__)
inline constexpr size_t kStackWords = 0;
#else
inline constexpr size_t kStackWords = 16;
#endif
inline constexpr size_t kFloatWords = kIntegerRegisters;
inline constexpr size_t kStackBegin = kFloatWords + kFloatRegisters;
// Functions of scalars with at most this many parameters have a loop of their own.
inline constexpr size_t kMostScalars = 3;
inline constexpr size_t kWords = kStackBegin + kStackWords;

// How a parameter's word is loaded from memory.
enum class Load : uint8_t {
  kAddress,  // the address itself
  kS8,
  kS16,
  kS32,
  kU8,
  kU16,
  kU32,   // float too: the upper half of its register is ignored
  kWord,  // 64 bits, of any type
};

// How a returned value is stored.
enum class Store : uint8_t {
  kNothing,
  kBool,
  kByte,
  kHalf,
  kSingle,
  kDouble,
  kWord,
  kInt
};

// A parameter's word that is loaded from an operand.
struct LoadedWord {
  Load load;
  uint8_t word;
  uint32_t operand;
};

// A parameter's word that is the same in each call.
struct ConstantWord {
  uint8_t word;
  int64_t value;
};

class WordAssignment;
struct Rows;
using RunRows = void (*)(const Rows& rows);

// Calls a function of floating-point scalars of one type that returns this type. `data`
// has the address of each parameter in the first row and of the result, `strides` the
// bytes to the next row.
using RunScalarRows = void (*)(void* address, char* const* data, const int64_t* strides,
                               size_t rows);

// The same for one row.
using CallScalars = void (*)(void* address, char* const* data);

// A call as the runtime makes it: which words are constants, which are loaded for each
// row, and how the returned value is stored.
struct NativeCall {
  std::vector<ConstantWord> constants;
  std::vector<LoadedWord> loads;
  Store store = Store::kNothing;
  size_t result = 0;  // index of the operand that receives the returned value
  RunRows run_rows = nullptr;
  // Without words in memory; null for other signatures.
  RunScalarRows run_scalar_rows = nullptr;
  CallScalars call_scalars = nullptr;

  // Sets the loops, once all words are known.
  void choose_loops(const WordAssignment& words);

  // Calls `address` for `rows` rows. `data` has the address of each operand in the
  // first row, `strides` the bytes to the next row; null for one row.
  void run(void* address, char* const* data, const int64_t* strides, size_t rows) const;
};

// Assigns words to parameters in their order.
class WordAssignment {
 public:
  // Return the next word for an integer or address, and for a floating-point number.
  // Throw std::invalid_argument if the platform supports no more parameters.
  uint8_t next_integer();
  uint8_t next_float();

  // Returns the loop over rows that loads the assigned words and stores the returned
  // value.
  RunRows choose_loop(Store store) const;

 private:
  uint8_t next_on_stack();

  size_t integers_ = 0;
  size_t floats_ = 0;
  size_t stack_ = 0;
};

}  // namespace bellhop
