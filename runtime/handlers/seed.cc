// handlers/seed.cc: bellhop_seed.
#include <algorithm>

#include "callbacks/callback_table.h"
#include "ffi/tsan_annotations.h"
#include "handlers/circuit_ffi.h"

namespace bellhop {
namespace {

// Returns the stream for programs in a plain jax.jit, which receive no table as an
// operand.
RandomStream& get_process_stream() {
  static auto& stream = *new RandomStream(std::nullopt);
  return stream;
}

// The handler of bellhop_seed.
// Threading: any XLA thread, without the GIL.
// Ownership: the running program owns the table.
ffi::Error seed_handler(Integer<"circuit"> circuit, ffi::RunId run,
                        ffi::BufferR1<ffi::U32> address,
                        ffi::ResultBufferR1<ffi::U32> result) {
  const OrderedScope in_run(run_order_key(run.run_id));
  if (address.element_count() != 2) {
    return ffi::Error::InvalidArgument(
        "address of a callback table: expected 2 words, got " +
        std::to_string(address.element_count()) + "." + kDamaged);
  }
  CallbackTable* const table = ProgramCall::from_operand(address.typed_data()).table;
  RandomStream& stream = table == nullptr ? get_process_stream() : table->random();
  const Seed words = stream.next(circuit, run.run_id);
  if (result->element_count() != words.size()) {
    return ffi::Error::InvalidArgument(
        "seed of a circuit: expected a result of " + std::to_string(words.size()) +
        " words, got " + std::to_string(result->element_count()) + "." + kDamaged);
  }
  std::ranges::copy(words, result->typed_data());
  return ffi::Error::Success();
}

const Target kSeed("bellhop_seed", handler<seed_handler>);

}  // namespace
}  // namespace bellhop
