// states/states.cc: the memory of a thread that runs circuits in the engine.
#include "states/states.h"

#include <algorithm>
#include <new>

#include "arrays/large_memory.h"

namespace bellhop::engine {
namespace {

constexpr std::size_t kWidest = 8;  // register, in numbers

std::size_t rounded(std::size_t count) {
  return (count + kWidest - 1) / kWidest * kWidest;
}

std::size_t size_of(const Layout& layout) {
  const std::size_t rows = layout.rows_in_lanes ? sweeps().lanes : 1;
  return rounded((std::size_t{1} << layout.qubits) * rows);
}

}  // namespace

States::Numbers States::allocate(std::size_t count) {
  auto* const numbers =
      static_cast<double*>(allocate_aligned(rounded(count) * sizeof(double)));
  if (numbers == nullptr) throw std::bad_alloc();
  return Numbers(numbers);
}

States::States(const Layout& layout) : layout_(layout), size_(size_of(layout)) {
  scratch_.prepared = &prepared_;
}

void States::fit_gathered(std::size_t numbers) {
  if (numbers <= numbers_gathered_) return;
  numbers_gathered_ = numbers;
  gathered_ = allocate(numbers * sweeps().lanes);
  scratch_.gathered = gathered_.get();
}

void States::fit(const Program& program) {
  fit_gathered(program.gathered);
  const std::size_t used = program.n_factors * lanes();
  if (program.n_factors <= factors_ && program.size <= operations_) {
    // The last register of angles may have more lanes than there are factors.
    std::fill(scratch_.angles + used, scratch_.angles + rounded(used), 0.0);
    return;
  }
  forget_matrices();
  factors_ = std::max(factors_, program.n_factors);
  operations_ = std::max(operations_, program.size);
  const std::size_t angles = rounded(factors_ * lanes());
  of_program_ = allocate(3 * angles + 8 * operations_ * lanes());
  double* next = of_program_.get();
  for (double** part : {&scratch_.angles, &scratch_.cosines, &scratch_.sines}) {
    *part = next;
    next += angles;
  }
  std::fill_n(scratch_.angles, angles, 0.0);
  scratch_.matrices = next;
}

Amplitudes States::get(std::size_t i) {
  while (vectors_.size() <= i) vectors_.push_back(allocate(2 * size_));
  return {vectors_[i].get(), vectors_[i].get() + size_};
}

void States::set_zero(const Amplitudes& state) const {
  std::fill_n(state.real, size_, 0.0);
  std::fill_n(state.imag, size_, 0.0);
}

void States::set_zero_state(const Amplitudes& state) const {
  set_zero(state);
  std::fill_n(state.real, lanes(), 1.0);
}

void States::copy(const Amplitudes& from, const Amplitudes& to) const {
  std::copy_n(from.real, size_, to.real);
  std::copy_n(from.imag, size_, to.imag);
}

}  // namespace bellhop::engine
