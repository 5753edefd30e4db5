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
    : seed_(seed ? *seed : entropy()) {}

Seed RandomStream::next(std::int64_t circuit) {
  std::uint64_t run = 0;
  {
    std::lock_guard lock(mutex_);
    run = runs_[circuit]++;
  }
  const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
  std::seed_seq words{low(seed_), low(seed_ >> 32), low(circuit), low(run),
                      low(run >> 32)};
  Seed seed;
  words.generate(seed.begin(), seed.end());
  return seed;
}

}  // namespace bellhop
