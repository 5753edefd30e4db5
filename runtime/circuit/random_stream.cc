// circuit/random_stream.cc: seeds for the circuits of a program.
#include "circuit/random_stream.h"

#include <random>

namespace bellhop {
namespace {

// How many executions' counts are kept, since the end of an execution is not known. An
// execution that is older would count from zero again; it would have to wait in a
// callback while this many other executions of the same function begin.
constexpr std::size_t kExecutionsKept = std::size_t{1} << 14;

std::uint64_t entropy() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

RandomStream::RandomStream(std::optional<std::uint64_t> seed)
    : given_(seed.has_value()), repeats_(given_), seed_(seed ? *seed : entropy()) {
  // The lock makes the constructed object visible to XLA's threads.
  std::lock_guard made(mutex_);
}

RandomStream::~RandomStream() {
  // The lock makes the other threads' writes visible here.
  std::lock_guard done(mutex_);
}

void RandomStream::seed_unless_given(std::uint64_t seed) {
  std::lock_guard lock(mutex_);
  if (given_) return;
  given_ = true;
  seed_ = seed;
}

// Returns the counts of an execution, or the common counts if seeds continue over
// calls.
RandomStream::Counts& RandomStream::find_or_add_counts(std::int64_t run_id) {
  const auto [found, is_new] = counts_.try_emplace(repeats_ ? run_id : 0);
  // References to elements stay valid when other elements are added or erased.
  Counts& counts = found->second;
  if (is_new && repeats_) {
    executions_.push_back(run_id);
    if (executions_.size() > kExecutionsKept) {
      counts_.erase(executions_.front());
      executions_.pop_front();
    }
  }
  return counts;
}

Seed RandomStream::next(std::int64_t circuit, std::int64_t run_id) {
  std::uint64_t run = 0;
  std::uint64_t base = 0;
  {
    std::lock_guard lock(mutex_);
    run = find_or_add_counts(run_id)[circuit]++;
    base = seed_;
  }
  const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
  std::seed_seq words{low(base), low(base >> 32), low(circuit), low(run),
                      low(run >> 32)};
  Seed seed;
  words.generate(seed.begin(), seed.end());
  return seed;
}

}  // namespace bellhop
