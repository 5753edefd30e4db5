// states/tiles.cc: process large states a tile at a time, on several threads.
#include "states/tiles.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <optional>

#include "interpreter/signals.h"
#include "states/large_operations.h"
#include "threads/thread_team.h"

namespace bellhop::engine {
namespace {

// Tiles are processed in at most this many parts, each on one thread, whose sums are
// added in order.
constexpr std::size_t kMostParts = 64;

// The cache lines of a next tile that fit into the second-level cache together with
// this tile.
constexpr std::size_t kMostLinesAhead = 4096;
// From this number of qubits on, the next tile is requested ahead. For smaller states
// the requests take longer than they save (doc/architecture/engine.md).
constexpr std::size_t kQubitsReadAhead = 20;

// A group reads the amplitudes that a program gives if its tiles consist of runs that
// are as long as a page or longer. Shorter ones take longer than a pass of their own:
// the program's array has small pages, and the state has large ones.
constexpr std::size_t kLeastRunOfGiven = 256;

std::atomic<std::uint64_t> passed_so_far{0};

std::size_t parts_of(std::size_t tiles) { return std::min(tiles, kMostParts); }

// Calls work(tile, part) for each tile; `make` makes the work function of a thread.
template <typename Make>
void for_each_tile(std::size_t tiles, const States& states, Make&& make) {
  const std::size_t parts = parts_of(tiles), share = tiles / parts;
  states.share(parts, [&]() -> RowWorker {
    return [share, work = make()](std::size_t part) {
      for (std::size_t t = part * share; t < (part + 1) * share; ++t) {
        check_signals();
        work(t, part);
      }
    };
  });
}

// The data that threads share while they process a group.
struct Sweep {
  const Group& group;
  Program program;
  std::vector<double> parameters;
  std::vector<double> direction;
  std::size_t qubits;
  Precision precision;
  Ket ket;
  std::span<const Amplitudes> bras;
  bool is_backward;
  // The bits of WrittenAmplitudes before the group.
  std::uint64_t written = WrittenAmplitudes::kAll;
  // Derivatives for each part, bra and parameter of the group; empty if not needed.
  std::vector<double> derivatives;

  // The length of the contiguous pieces of a tile, and their offsets.
  std::size_t run = 1;
  std::vector<std::size_t> runs = {};
  // The amplitudes before the group, unless the ket has them.
  std::optional<GivenAmplitudes> given = {};

  std::size_t tiles() const { return std::size_t{1} << (qubits - group.bits.size()); }
  std::size_t derivatives_of_part() const { return bras.size() * program.parameters; }
};

// Returns the bits of the state's index that a group's tiles contain.
std::uint64_t bits_of(const Group& group) {
  std::uint64_t bits = 0;
  for (const std::uint8_t bit : group.bits) bits |= std::uint64_t{1} << bit;
  return bits;
}

std::size_t spread(std::size_t index, std::span<const std::uint8_t> bits) {
  std::size_t out = 0;
  for (std::size_t i = 0; i < bits.size(); ++i) out |= ((index >> i) & 1) << bits[i];
  return out;
}

// A thread's memory for tiles.
class TileWorker {
 public:
  explicit TileWorker(Sweep& sweep)
      : sweep_(sweep),
        tiles_({sweep.group.bits.size(), /*rows_in_lanes=*/false, sweep.precision}),
        reads_ahead_(sweep.runs.size() > 1 && sweep.qubits >= kQubitsReadAhead &&
                     !sweep.given) {
    tiles_.fit(sweep.program, sweep.ket.moves());
    const std::uint64_t inside = bits_of(sweep.group);
    for (std::uint8_t bit = 0; bit < sweep.qubits; ++bit) {
      if (((inside >> bit) & 1) == 0) outer_.push_back(bit);
    }
  }

  // Applies the group to a tile, forward or backward.
  void run(std::size_t tile, std::size_t part) {
    Layout layout = tiles_.layout();
    layout.outside = spread(tile, outer_);
    const std::size_t first = layout.outside;
    if ((first & ~sweep_.written) != 0) return;  // The ket is 0 in all of the tile.
    const std::size_t n = sweep_.bras.size();
    Ket ket{sweep_.given ? given(first)
                         : gathered(sweep_.ket.state, 0, first,
                                    sweep_.is_backward ? WrittenAmplitudes::kAll
                                                       : sweep_.written)};
    if (ket_moves()) ket.tangent = gathered(sweep_.ket.tangent, 1 + n, first);
    bras_.clear();
    for (std::size_t b = 0; b < n; ++b) {
      bras_.push_back(gathered(sweep_.bras[b], 1 + b, first));
    }
    find_lines_ahead(tile + 1);
    const bool differentiates = !sweep_.derivatives.empty();
    const Segment segment{&sweep_.program,
                          1,
                          sweep_.parameters.data(),
                          0,
                          differentiates ? 0 : -1,
                          sweep_.direction.empty() ? nullptr : sweep_.direction.data()};
    if (sweep_.is_backward) {
      double* const into =
          sweep_.derivatives.data() + part * sweep_.derivatives_of_part();
      tiles_.sweeps().backward(layout, &segment, 1, ket, bras_.data(), n, into,
                               sweep_.program.parameters, 0, 1, tiles_.scratch());
    } else {
      tiles_.sweeps().forward(layout, &segment, 1, ket, tiles_.scratch());
    }
    scatter(ket.state, sweep_.ket.state, first);
    if (ket_moves()) scatter(ket.tangent, sweep_.ket.tangent, first);
    for (std::size_t b = 0; b < n; ++b) scatter(bras_[b], sweep_.bras[b], first);
  }

 private:
  bool ket_moves() const { return sweep_.ket.moves(); }
  bool is_in_place() const { return sweep_.runs.size() == 1; }

  // Returns the memory in which a tile is processed: of the state, if the tile is
  // contiguous, or else a vector of this worker.
  Amplitudes memory_of_tile(const Amplitudes& state, std::size_t number,
                            std::size_t first) {
    return is_in_place() ? engine::from(tiles_.layout(), state, first)
                         : tiles_.get(number);
  }

  // Returns a contiguous copy of a tile, or a view if the tile is contiguous. Sets the
  // amplitudes to 0 that were not written.
  Amplitudes gathered(const Amplitudes& from, std::size_t number, std::size_t first,
                      std::uint64_t written = WrittenAmplitudes::kAll) {
    const bool in_place = is_in_place();
    const Amplitudes to = memory_of_tile(from, number, first);
    const std::size_t unwritten = (sweep_.run - 1) & ~written;  // within a piece
    if (in_place && unwritten == 0) return to;
    with_numbers(
        tiles_.layout(),
        [&](auto whole, auto tile) {
          for (std::size_t r = 0; r < sweep_.runs.size(); ++r) {
            auto* const real = tile.real + r * sweep_.run;
            auto* const imag = tile.imag + r * sweep_.run;
            if ((sweep_.runs[r] & ~written) != 0) {
              std::fill_n(real, sweep_.run, 0);
              std::fill_n(imag, sweep_.run, 0);
              continue;
            }
            const std::size_t place = first + sweep_.runs[r];
            if (!in_place) {
              copy(whole.real + place, real);
              copy(whole.imag + place, imag);
            }
            for (std::size_t i = 0; unwritten != 0 && i < sweep_.run; ++i) {
              if ((i & unwritten) != 0) real[i] = imag[i] = 0;
            }
          }
        },
        from, to);
    return to;
  }

  // Returns a tile of the amplitudes that the program gives: a contiguous copy, in the
  // ket if the tile is contiguous.
  Amplitudes given(std::size_t first) {
    const Amplitudes to = memory_of_tile(sweep_.ket.state, 0, first);
    const auto copy_runs = [&](auto tile) {
      for (std::size_t r = 0; r < sweep_.runs.size(); ++r) {
        sweep_.given->copy(first + sweep_.runs[r], sweep_.run,
                           tile.real + r * sweep_.run, tile.imag + r * sweep_.run);
      }
    };
    with_numbers(tiles_.layout(), copy_runs, to);
    return to;
  }

  // Collects the cache lines of the next tile, which is not contiguous, so that they
  // are in the second-level cache when it is gathered.
  void find_lines_ahead(std::size_t tile) {
    ahead_.clear();
    if (!reads_ahead_) return;
    const std::size_t first = spread(tile, outer_);
    if (tile < sweep_.tiles() && (first & ~sweep_.written) == 0) {
      add_lines(sweep_.ket.state, first);
      if (ket_moves()) add_lines(sweep_.ket.tangent, first);
      for (const Amplitudes& bra : sweep_.bras) {
        if (ahead_.size() < kMostLinesAhead) add_lines(bra, first);
      }
    }
    tiles_.set_ahead(ahead_);
  }
  void add_lines(const Amplitudes& from, std::size_t first) {
    with_numbers(
        tiles_.layout(),
        [&](auto whole) {
          constexpr std::size_t kLine = 64 / sizeof(*whole.real);
          for (const std::size_t run : sweep_.runs) {
            for (std::size_t i = 0; i < sweep_.run; i += kLine) {
              ahead_.push_back(whole.real + first + run + i);
              ahead_.push_back(whole.imag + first + run + i);
            }
          }
        },
        from);
  }

  // Copies a tile back into the state, unless it was processed in place.
  void scatter(const Amplitudes& from, const Amplitudes& to, std::size_t first) const {
    if (is_in_place()) return;
    with_numbers(
        tiles_.layout(),
        [&](auto tile, auto whole) {
          for (std::size_t r = 0; r < sweep_.runs.size(); ++r) {
            const std::size_t place = first + sweep_.runs[r];
            copy(tile.real + r * sweep_.run, whole.real + place);
            copy(tile.imag + r * sweep_.run, whole.imag + place);
          }
        },
        from, to);
  }

  template <typename Real>
  void copy(const Real* from, Real* to) const {
    constexpr std::size_t kLine = 8;
    for (std::size_t i = 0; i < sweep_.run; i += kLine) {
      for (std::size_t k = 0; k < kLine; ++k) to[i + k] = from[i + k];
    }
  }

  Sweep& sweep_;
  States tiles_;
  const bool reads_ahead_;
  std::vector<std::uint8_t> outer_;
  std::vector<Amplitudes> bras_;
  std::vector<const void*> ahead_;
};

// Collects the data for processing a group.
Sweep sweep_of(const TiledProgram& program, const Group& group, const States& states,
               const Ket& ket) {
  Sweep sweep{group,
              group.program(program.whole),
              {},
              {},
              states.layout().qubits,
              states.layout().precision,
              ket,
              {},
              false,
              WrittenAmplitudes::kAll,
              {}};
  for (const std::size_t slot : group.slots) {
    sweep.parameters.push_back(program.parameters[slot]);
    if (program.direction != nullptr) {
      sweep.direction.push_back(program.direction[slot]);
    }
  }
  std::size_t low = 0;
  while (low < group.bits.size() && group.bits[low] == low) ++low;
  const auto high = std::span(group.bits).subspan(low);
  sweep.run = std::size_t{1} << low;
  for (std::size_t r = 0; r < std::size_t{1} << high.size(); ++r) {
    sweep.runs.push_back(spread(r, high));
  }
  return sweep;
}

void go_through(Sweep& sweep, const States& states) {
  const std::uint64_t all = (std::uint64_t{1} << sweep.qubits) - 1;
  const std::uint64_t outside = all & ~bits_of(sweep.group);
  const std::uint64_t tiles = std::uint64_t{1}
                              << std::popcount(outside & sweep.written);
  const std::size_t vectors = 1 + sweep.bras.size() + (sweep.ket.moves() ? 1 : 0);
  passed_so_far.fetch_add((tiles * vectors) << sweep.group.bits.size(),
                          std::memory_order_relaxed);
  for_each_tile(sweep.tiles(), states, [&] {
    const auto worker = std::make_shared<TileWorker>(sweep);
    return [worker](std::size_t tile, std::size_t part) { worker->run(tile, part); };
  });
}

// A tile for Pauli words, which consists of the lowest bits of the index.
struct WordTile {
  explicit WordTile(const Layout& whole)
      : layout{std::min(whole.qubits, kTileBits), whole.rows_in_lanes, whole.precision},
        count(std::size_t{1} << (whole.qubits - layout.qubits)) {
    if (whole.rows_in_lanes) layout = whole, count = 1;
  }

  Amplitudes of(const Amplitudes& state, std::size_t tile) const {
    return from(layout, state, tile << layout.qubits);
  }
  // Returns the tile whose amplitudes a word maps to `tile`.
  std::size_t partner(std::size_t tile, const PauliBits& word) const {
    return tile ^ (word.flips >> layout.qubits);
  }
  PauliBits inner(const PauliBits& word) const {
    const std::uint64_t mine = (std::uint64_t{1} << layout.qubits) - 1;
    return {word.flips & mine, word.signs & mine, word.y_factors};
  }
  double sign(std::size_t tile, const PauliBits& word) const {
    return std::popcount(tile & (word.signs >> layout.qubits)) % 2 == 0 ? 1 : -1;
  }

  Layout layout;
  std::size_t count;
};

void expect_words(std::size_t words, const States& states) {
  states.announce_work(kNanosecondsOfAmplitude *
                       static_cast<double>(words * size_of(states)));
}

}  // namespace

std::uint64_t amplitudes_passed() noexcept {
  return passed_so_far.load(std::memory_order_relaxed);
}

void write_given(WrittenAmplitudes& written, const States& states,
                 const Amplitudes& state) {
  if (const auto given = written.take_given()) {
    write_in_order(*given, size_of(states), states, state);
  }
}

void forward_by_tiles(const TiledProgram& program, const States& states, const Ket& ket,
                      WrittenAmplitudes& written) {
  const std::uint64_t no_index = ~std::uint64_t{0} << states.layout().qubits;
  for (const Group& group : program.groups) {
    if (group.large) {
      write_given(written, states, ket.state);
      const std::uint64_t before = written.apply_group(WrittenAmplitudes::kAll);
      const auto given = all_in_order(*group.large, program, states);
      if (given && program.has_kept_parameters && !ket.moves()) {
        // The next group copies them.
        states.announce_work(kNanosecondsOfMappedAmplitude *
                             static_cast<double>(size_of(states)));
        written.give(*given);
        continue;
      }
      states.set_zero_outside(ket.state, before);
      apply_large(*group.large, program, states, ket);
      continue;
    }
    Sweep sweep = sweep_of(program, group, states, ket);
    // The derivative of a merged operation is not implemented.
    if (!ket.moves()) sweep.program = group.merged_program(program.whole);
    if (sweep.run < kLeastRunOfGiven) write_given(written, states, ket.state);
    sweep.given = written.take_given();
    sweep.written = written.apply_group(bits_of(group) | no_index);
    go_through(sweep, states);
  }
}

void backward_by_tiles(const TiledProgram& program, const States& states,
                       const Ket& ket, std::span<const Amplitudes> bras,
                       double* jacobian, std::size_t columns,
                       WrittenAmplitudes& written) {
  for (std::size_t g = program.groups.size(); g-- > 0;) {
    const Group& group = program.groups[g];
    const std::uint64_t before = written.undo_group();
    if (group.large) {
      go_back_large(*group.large, program, states, ket, bras, jacobian, columns);
      continue;
    }
    Sweep sweep = sweep_of(program, group, states, ket);
    sweep.is_backward = true;
    sweep.written = before;
    sweep.bras = bras;
    const std::size_t size = sweep.derivatives_of_part();
    if (jacobian != nullptr) sweep.derivatives.resize(parts_of(sweep.tiles()) * size);
    go_through(sweep, states);
    for (std::size_t i = 0; i < sweep.derivatives.size(); ++i) {
      const std::size_t bra = i % size / group.slots.size();
      jacobian[bra * columns + group.slots[i % group.slots.size()]] +=
          sweep.derivatives[i];
    }
  }
}

void add_words(std::span<const WeightedWord> words, const States& states,
               const Amplitudes& into, const Amplitudes& ket) {
  const WordTile tiles(states.layout());
  expect_words(words.size(), states);
  for_each_tile(tiles.count, states, [&] {
    return [&](std::size_t tile, std::size_t) {
      for (const WeightedWord& word : words) {
        Lanewise weight = word.weight;
        for (double& number : weight) number *= tiles.sign(tile, word.bits);
        states.sweeps().add_word(tiles.layout, tiles.inner(word.bits), weight.data(),
                                 tiles.of(into, tile),
                                 tiles.of(ket, tiles.partner(tile, word.bits)));
      }
    };
  });
}

Lanewise overlap_of_words(std::span<const WeightedWord> words, const States& states,
                          const Amplitudes& bra, const Amplitudes& ket) {
  const WordTile tiles(states.layout());
  std::vector<Lanewise> parts(parts_of(tiles.count), Lanewise{});
  expect_words(words.size(), states);
  for_each_tile(tiles.count, states, [&] {
    return [&](std::size_t tile, std::size_t part) {
      for (const WeightedWord& word : words) {
        Lanewise found{};
        states.sweeps().word_overlap(
            tiles.layout, tiles.inner(word.bits), tiles.of(bra, tile),
            tiles.of(ket, tiles.partner(tile, word.bits)), found.data());
        for (std::size_t lane = 0; lane < states.lanes(); ++lane) {
          parts[part][lane] +=
              tiles.sign(tile, word.bits) * word.weight[lane] * found[lane];
        }
      }
    };
  });
  Lanewise sum{};
  for (const Lanewise& part : parts) {
    for (std::size_t lane = 0; lane < states.lanes(); ++lane) sum[lane] += part[lane];
  }
  return sum;
}

}  // namespace bellhop::engine
