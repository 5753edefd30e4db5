// states/states.h: the memory of a thread that executes circuits in the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/operation.h"
#include "threads/thread_team.h"
#include "threads/work_crew.h"

namespace bellhop::engine {

// Roughly how long an operation takes one thread for each amplitude.
constexpr double kNanosecondsOfAmplitude = 0.2;
// The same where an amplitude is found by its index, or copied from a program's array.
constexpr double kNanosecondsOfMappedAmplitude = 1.0;

// Amplitudes as arrays of their stored type.
template <typename Real>
struct AmplitudesOf {
  explicit AmplitudesOf(const Amplitudes& state)
      : real(static_cast<Real*>(state.real)), imag(static_cast<Real*>(state.imag)) {}
  Real* real;
  Real* imag;
};

// Calls visit(AmplitudesOf...) with states of one layout, in the precision of the
// layout.
template <typename Visit, typename... State>
void with_numbers(const Layout& layout, const Visit& visit, const State&... states) {
  if (layout.precision == Precision::kSingle) {
    visit(AmplitudesOf<float>(states)...);
  } else {
    visit(AmplitudesOf<double>(states)...);
  }
}

// Returns the amplitudes from index `first` on.
inline Amplitudes from(const Layout& layout, const Amplitudes& state,
                       std::size_t first) {
  Amplitudes found{};
  with_numbers(
      layout,
      [&](auto numbers) { found = {numbers.real + first, numbers.imag + first}; },
      state);
  return found;
}

// State vectors of one layout, and the scratch memory for operations on them. One
// thread uses it at a time.
class States {
 public:
  explicit States(const Layout& layout);
  States(const States&) = delete;
  States& operator=(const States&) = delete;

  // Enlarge the scratch memory for a program (with tangents of the state if
  // `has_tangents`), and for a matrix on `targets` qubits.
  void fit(const Program& program, bool has_tangents);
  void fit_matrix(std::size_t targets) {
    fit_gathered(gathered_numbers(targets, true));
  }

  // Sets the threads that may share the work on a large state, which the caller owns;
  // null for none. They replace the helpers of an earlier call.
  void lend(const Helpers* helpers) {
    crew_.reset();
    helpers_ = helpers;
  }
  // Announces work that `share` will divide, and that would take one thread about
  // `nanoseconds`, so that helper threads come in time.
  void announce_work(double nanoseconds) const;
  // Processes parts 0 to `parts` - 1, each once, on this thread and the threads of
  // `lend`, as WorkCrew::run does. Looks for signals before each part; throws
  // Interrupted.
  void share(std::size_t parts, const std::function<RowWorker()>& make) const;

  // Discards the cached matrices. Must be called when parameters change.
  void forget_matrices() { prepared_ = {}; }

  // Sets the cache lines that sweeps request between operations. The addresses must
  // stay where they are until the next call.
  void set_ahead(std::span<const void* const> lines) {
    scratch_.ahead = lines.data();
    scratch_.n_ahead = lines.size();
  }

  const Layout& layout() const { return layout_; }
  const Scratch& scratch() const { return scratch_; }
  // Returns how many rows an operation processes at a time.
  std::size_t lanes() const { return layout_.rows_in_lanes ? sweeps().lanes : 1; }
  const Sweeps& sweeps() const { return engine::sweeps(layout_.precision); }

  // Returns state vector i, which is allocated on first use, uninitialised. Pointers to
  // other vectors stay valid.
  Amplitudes get(std::size_t i);
  void set_zero(const Amplitudes& state) const;        // all amplitudes 0
  void set_zero_state(const Amplitudes& state) const;  // |0...0>
  // Sets the amplitudes to 0 whose index has a bit outside of `written`.
  void set_zero_outside(const Amplitudes& state, std::uint64_t written) const;
  void copy(const Amplitudes& from, const Amplitudes& to) const;
  void multiply(const Amplitudes& state, double factor) const;

 private:
  struct Free {
    void operator()(void* numbers) const { std::free(numbers); }
  };
  using Memory = std::unique_ptr<void, Free>;
  static Memory allocate(std::size_t bytes);

  void fit_gathered(std::size_t numbers);

  bool has_helpers() const { return helpers_ != nullptr && helpers_->threads > 1; }

  const Layout layout_;
  const Helpers* helpers_ = nullptr;
  mutable std::optional<WorkCrew> crew_;  // while helpers are lent and have work
  const std::size_t size_;                // numbers of a real part
  std::size_t factors_ = 0;
  std::size_t matrices_ = 0;  // numbers of matrices, in each lane
  std::size_t numbers_gathered_ = 0;
  Memory of_program_;
  Memory gathered_;
  Prepared prepared_;
  Scratch scratch_;
  std::vector<Memory> vectors_;
};

// Returns how many amplitudes a state vector has, for each lane.
inline std::size_t size_of(const States& states) {
  return std::size_t{1} << states.layout().qubits;
}

}  // namespace bellhop::engine
