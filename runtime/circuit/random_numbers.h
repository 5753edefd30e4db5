// circuit/random_numbers.h: random numbers that depend on their position alone, so that
// threads which share the work draw the same numbers as one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace bellhop {

// The function Philox4x32-10 (Salmon et al., Proceedings of SC11, article 16, 2011):
// 128 random bits for each value of a counter.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 2> key,
                                              std::array<std::uint32_t, 4> counter) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(second),
               static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// The first of the known answers that its authors publish.
static_assert(philox({0, 0}, {0, 0, 0, 0}) ==
              std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c,
                                           0x9b00dbd8});

// A number of 53 random bits in [0, 1).
inline double to_uniform(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = std::uint64_t{high} << 32 | low;
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// Names the random numbers of one run of a circuit.
class RandomKey {
 public:
  // `words` are a seed, and `run` is the index of the run among the runs of one handler
  // call.
  RandomKey(const std::array<std::uint32_t, 4>& words, std::size_t run) {
    const auto hash = philox({words[0], words[1]},
                             {words[2], words[3], static_cast<std::uint32_t>(run),
                              static_cast<std::uint32_t>(std::uint64_t{run} >> 32)});
    key_ = {hash[0], hash[1]};
    salt_ = hash[2];
  }

  // Two random numbers in [0, 1), for the shots 2 * pair and 2 * pair + 1.
  std::array<double, 2> numbers_of_shots(std::uint64_t pair) const {
    const auto bits = philox(key_, {static_cast<std::uint32_t>(pair),
                                    static_cast<std::uint32_t>(pair >> 32), 0, salt_});
    return {to_uniform(bits[0], bits[1]), to_uniform(bits[2], bits[3])};
  }

  // Returns the random number in [0, 1) of one shot.
  double number_of_shot(std::uint64_t shot) const {
    return numbers_of_shots(shot / 2)[shot % 2];
  }

 private:
  friend class NumberSequence;
  std::array<std::uint32_t, 2> key_;
  std::uint32_t salt_;
};

// Random numbers in [0, 1) of one of 2^31 sequences. Sequences are independent of each
// other and of the numbers for shots.
class NumberSequence {
 public:
  // `key` must outlive the sequence. `sequence` is its number, below 2^31.
  NumberSequence(const RandomKey& key, std::size_t sequence)
      : key_(key), sequence_(static_cast<std::uint32_t>(sequence) | 0x80000000u) {}

  // Returns the next number of the sequence.
  double next() {
    if (is_second_) {
      is_second_ = false;
      return second_;
    }
    const auto bits = philox(key_.key_, {static_cast<std::uint32_t>(position_),
                                         static_cast<std::uint32_t>(position_ >> 32),
                                         sequence_, key_.salt_});
    ++position_;
    second_ = to_uniform(bits[2], bits[3]);
    is_second_ = true;
    return to_uniform(bits[0], bits[1]);
  }

 private:
  const RandomKey& key_;
  const std::uint32_t sequence_;
  std::uint64_t position_ = 0;
  double second_ = 0;
  bool is_second_ = false;
};

}  // namespace bellhop
