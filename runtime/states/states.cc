// states/states.cc: the memory of a thread that executes circuits in the engine.
#include "states/states.h"

#include <algorithm>

#include "arrays/large_memory.h"
#include "devices/memory_limits.h"
#include "interpreter/signals.h"

namespace bellhop::engine {
namespace {

constexpr std::size_t kWidest = 16;  // register, in numbers

std::size_t rounded(std::size_t count) {
  return (count + kWidest - 1) / kWidest * kWidest;
}

std::size_t size_of(const Layout& layout) {
  const std::size_t rows = layout.rows_in_lanes ? sweeps(layout.precision).lanes : 1;
  return rounded((std::size_t{1} << layout.qubits) * rows);
}

}  // namespace

States::Memory States::allocate(std::size_t bytes) {
  void* const memory = allocate_aligned(bytes);
  if (memory == nullptr) throw_no_memory(bytes);
  return Memory(memory);
}

States::States(const Layout& layout) : layout_(layout), size_(size_of(layout)) {
  scratch_.prepared = &prepared_;
}

void States::announce_work(double nanoseconds) const {
  if (!has_helpers()) return;
  if (!crew_) crew_.emplace(*helpers_);
  crew_->announce_work(nanoseconds);
}

void States::share(std::size_t parts, const std::function<RowWorker()>& make) const {
  const auto make_interruptible = [&make]() -> RowWorker {
    return [work = make()](std::size_t part) {
      check_signals();
      work(part);
    };
  };
  if (crew_ && parts > 1) return crew_->run(parts, make_interruptible);
  const RowWorker work = make_interruptible();
  for (std::size_t part = 0; part < parts; ++part) work(part);
}

void States::fit_gathered(std::size_t numbers) {
  if (numbers <= numbers_gathered_) return;
  numbers_gathered_ = numbers;
  gathered_ = allocate(rounded(numbers * sweeps().lanes) * sizeof(double));
  scratch_.gathered = gathered_.get();
}

void States::fit(const Program& program, bool has_tangents) {
  fit_gathered(program.gathered);
  const std::size_t used = program.n_factors * lanes();
  const std::size_t matrices = (has_tangents ? 16 : 8) * program.size;
  if (program.n_factors <= factors_ && matrices <= matrices_) {
    // The last register of angles may have more lanes than there are factors.
    std::fill(scratch_.angles + used, scratch_.angles + rounded(used), 0.0);
    return;
  }
  forget_matrices();
  factors_ = std::max(factors_, program.n_factors);
  matrices_ = std::max(matrices_, matrices);
  const std::size_t angles = rounded(factors_ * lanes());
  of_program_ = allocate(rounded(3 * angles + matrices_ * lanes()) * sizeof(double));
  auto* next = static_cast<double*>(of_program_.get());
  for (double** part : {&scratch_.angles, &scratch_.cosines, &scratch_.sines}) {
    *part = next;
    next += angles;
  }
  std::fill_n(scratch_.angles, angles, 0.0);
  scratch_.matrices = next;
}

Amplitudes States::get(std::size_t i) {
  const std::size_t bytes = size_ * (bytes_of_amplitude(layout_.precision) / 2);
  while (vectors_.size() <= i) vectors_.push_back(allocate(2 * bytes));
  auto* const real = static_cast<std::byte*>(vectors_[i].get());
  return {real, real + bytes};
}

void States::set_zero(const Amplitudes& state) const {
  with_numbers(
      layout_,
      [&](auto numbers) {
        for_each_piece(size_, [&](std::size_t begin, std::size_t end) {
          std::fill(numbers.real + begin, numbers.real + end, 0);
          std::fill(numbers.imag + begin, numbers.imag + end, 0);
        });
      },
      state);
}

void States::set_zero_state(const Amplitudes& state) const {
  set_zero(state);
  with_numbers(
      layout_, [&](auto numbers) { std::fill_n(numbers.real, lanes(), 1); }, state);
}

void States::set_zero_outside(const Amplitudes& state, std::uint64_t written) const {
  const std::uint64_t unwritten = ((std::uint64_t{1} << layout_.qubits) - 1) & ~written;
  if (unwritten == 0) return;
  // In a block of this size, no bit of `unwritten` changes.
  const std::size_t block = unwritten & (~unwritten + 1);
  with_numbers(
      layout_,
      [&](auto numbers) {
        if (written == 0) {
          // All blocks have one amplitude, so it is faster to keep the first one.
          const auto real = numbers.real[0], imag = numbers.imag[0];
          set_zero(state);
          numbers.real[0] = real;
          numbers.imag[0] = imag;
          return;
        }
        for_each_piece(size_, [&](std::size_t begin, std::size_t end) {
          for (std::size_t i = begin; i < end;) {
            const std::size_t next = std::min(end, (i | (block - 1)) + 1);
            if ((i & unwritten) != 0) {
              std::fill(numbers.real + i, numbers.real + next, 0);
              std::fill(numbers.imag + i, numbers.imag + next, 0);
            }
            i = next;
          }
        });
      },
      state);
}

void States::copy(const Amplitudes& from, const Amplitudes& to) const {
  with_numbers(
      layout_,
      [&](auto source, auto target) {
        for_each_piece(size_, [&](std::size_t begin, std::size_t end) {
          std::copy(source.real + begin, source.real + end, target.real + begin);
          std::copy(source.imag + begin, source.imag + end, target.imag + begin);
        });
      },
      from, to);
}

void States::multiply(const Amplitudes& state, double factor) const {
  if (factor == 1) return;
  const auto multiply = [&]<typename Real>(AmplitudesOf<Real> numbers) {
    const auto by = static_cast<Real>(factor);
    for_each_piece(size_, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        numbers.real[i] *= by;
        numbers.imag[i] *= by;
      }
    });
  };
  with_numbers(layout_, multiply, state);
}

}  // namespace bellhop::engine
