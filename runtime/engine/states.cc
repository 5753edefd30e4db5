// engine/states.cc: the memory of a thread that runs circuits in the engine.
#include "engine/states.h"

#include <algorithm>
#include <new>

namespace bellhop::engine {
namespace {

constexpr std::align_val_t kAlignment{64};  // of the widest register
constexpr std::size_t kWidest = 8;

std::size_t rounded(std::size_t count) {
  return (count + kWidest - 1) / kWidest * kWidest;
}

std::size_t size_of(const Layout& layout) {
  const std::size_t rows = layout.rows_in_lanes ? sweeps().lanes : 1;
  return rounded((std::size_t{1} << layout.qubits) * rows);
}

}  // namespace

void Sizes::fit(const Program& program) {
  factors = std::max(factors, program.n_factors);
  operations = std::max(operations, program.size);
}

void States::Free::operator()(double* numbers) const {
  ::operator delete[](numbers, kAlignment);
}

States::Numbers States::allocate(std::size_t count) {
  return Numbers(static_cast<double*>(
      ::operator new[](rounded(count) * sizeof(double), kAlignment)));
}

States::States(const Layout& layout, const Sizes& sizes)
    : layout_(layout), size_(size_of(layout)) {
  const std::size_t lanes = sweeps().lanes;
  const std::size_t dimension = std::size_t{1} << kMostTargets;
  const std::size_t angles = rounded(sizes.factors * lanes);
  const std::size_t matrices = rounded(8 * sizes.operations * lanes);
  memory_ = allocate(3 * angles + matrices + 2 * dimension * (1 + dimension) * lanes);
  double* next = memory_.get();
  for (double** part : {&scratch_.angles, &scratch_.cosines, &scratch_.sines}) {
    *part = next;
    next += angles;
  }
  // The last register of angles may have more lanes than there are factors.
  std::fill_n(scratch_.angles, angles, 0.0);
  scratch_.matrices = next;
  scratch_.gathered = next + matrices;
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
