// handlers/random_stream.cc: seeds for the circuits of a program.
#include "bellhop/random_stream.h"

#include <random>

namespace bellhop {
namespace {

std::uint64_t entropy() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

RandomStream::RandomStream(std::optional<std::uint64_t> seed)
    : given_(seed.has_value()), seed_(seed ? *seed : entropy()) {}

void RandomStream::seed_unless_given(std::uint64_t seed) {
  std::lock_guard lock(mutex_);
  if (given_) return;
  given_ = true;
  seed_ = seed;
}

Seed RandomStream::next(std::int64_t circuit) {
  std::uint64_t run = 0;
  std::uint64_t base = 0;
  {
    std::lock_guard lock(mutex_);
    run = runs_[circuit]++;
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
