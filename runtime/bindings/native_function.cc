// bindings/native_function.cc: the Python class that describes a C function.
#include "bindings/native_function.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "native/native_function.h"

namespace bellhop {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

using ParameterRecord = std::tuple<std::string, size_t, std::vector<int64_t>>;
using OperandRecord = std::tuple<int, int64_t, int64_t, std::vector<bool>>;

NativeParameter::Kind kind_of(const std::string& name) {
  if (name == "value") return NativeParameter::Kind::kValue;
  if (name == "pointer") return NativeParameter::Kind::kPointer;
  if (name == "constant") return NativeParameter::Kind::kConstant;
  if (name == "constants") return NativeParameter::Kind::kConstants;
  throw std::invalid_argument(
      "bellhop: internal error: kind of a native function's parameter: expected "
      "'value', 'pointer', 'constant' or 'constants', got '" +
      name + "'. Please report this as a bug in Bellhop.");
}

}  // namespace

void define_native_function(nb::module_& m) {
  nb::class_<NativeFunction>(m, "NativeFunction",
                             "A C function that programs call without Python.")
      .def(
          "__init__",
          [](NativeFunction* self, uintptr_t address,
             const std::vector<ParameterRecord>& parameters,
             const std::vector<OperandRecord>& operands, size_t n_arguments,
             bool returns_value, std::vector<int64_t> batch_shape, bool is_thread_safe,
             bool keeps_subnormals) {
            std::vector<NativeParameter> described;
            for (const auto& [kind, operand, constants] : parameters) {
              described.push_back({kind_of(kind), operand, constants});
            }
            std::vector<NativeOperand> typed;
            for (const auto& [dtype, elements, item_bytes, is_mapped] : operands) {
              typed.push_back({dtype, elements, item_bytes, is_mapped});
            }
            new (self) NativeFunction(
                reinterpret_cast<void*>(address), std::move(described),
                std::move(typed), n_arguments, returns_value, std::move(batch_shape),
                is_thread_safe, keeps_subnormals);
          },
          "address"_a, "parameters"_a, "operands"_a, "n_arguments"_a, "returns_value"_a,
          "batch_shape"_a, "is_thread_safe"_a, "keeps_subnormals"_a,
          "Describe the function at an address.\n\n"
          "Args:\n"
          "    parameters: for each C parameter (kind, operand, constants), with kind "
          "'value', 'pointer', 'constant' or 'constants'.\n"
          "    operands: for each argument and result (XLA's element type, number of "
          "elements, bytes of an element, "
          "whether it has each axis of the batch).\n"
          "    n_arguments: how many of the operands are arguments.\n"
          "    returns_value: whether the only result is what the function returns.\n"
          "    batch_shape: the sizes of the axes of the batch, outermost first.\n"
          "    is_thread_safe: whether rows of a batch may be called at once.\n"
          "    keeps_subnormals: whether the function computes in the default "
          "floating-point environment, not in XLA's.");
}

}  // namespace bellhop
