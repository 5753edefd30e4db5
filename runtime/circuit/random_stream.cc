// circuit/random_stream.cc: seeds for the circuits of a program.
#include "circuit/random_stream.h"

#include <random>

namespace bellhop {
namespace {

// Nobody says when an execution ends. An older one would start anew; it would have to
// wait in a callback for so many later ones of the same function.
constexpr std::size_t kExecutionsKept = std::size_t{1} << 14;

std::uint64_t entropy() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

RandomStream::RandomStream(std::optional<std::uint64_t> seed)
    : given_(seed.has_value()), repeats_(given_), seed_(seed ? *seed : entropy()) {
  // XLA's threads see by the lock what was made here.
  std::lock_guard made(mutex_);
}

RandomStream::~RandomStream() {
  // What they did is seen here.
  std::lock_guard done(mutex_);
}

void RandomStream::seed_unless_given(std::uint64_t seed) {
  std::lock_guard lock(mutex_);
  if (given_) return;
  given_ = true;
  seed_ = seed;
}

RandomStream::Counts& RandomStream::find_or_add_counts(std::int64_t run_id) {
  const auto [found, is_new] = counts_.try_emplace(repeats_ ? run_id : 0);
  // A reference to the counts of one stays when others come and go.
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
