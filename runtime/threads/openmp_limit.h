// threads/openmp_limit.h: limit the OpenMP threads of a plugin for small circuits and
// batches.
#pragma once

#include <cstddef>

namespace bellhop {

// The control functions of a plugin's own OpenMP library; null if it has none.
struct OpenMpControl {
  int (*get_max_threads)() = nullptr;
  void (*set_num_threads)(int) = nullptr;

  // Looks up the functions in an open library and its dependencies.
  static OpenMpControl find_in(void* library);
};

// Limits the number of threads of the OpenMP parallel regions that this thread enters,
// for the object's lifetime. A small circuit gets one thread: starting a team takes
// longer than the state's arithmetic, and on a busy machine its threads wait for each
// other for milliseconds. If `teams` circuits of a batch run at a time, each gets its
// share of the threads.
class OpenMpLimit {
 public:
  // `control` is the plugin's; nothing is limited if its functions are null. `qubits`
  // is the size of the circuit.
  OpenMpLimit(const OpenMpControl& control, std::size_t qubits, std::size_t teams = 1);
  ~OpenMpLimit();
  OpenMpLimit(const OpenMpLimit&) = delete;
  OpenMpLimit& operator=(const OpenMpLimit&) = delete;

 private:
  void (*restore_)(int) = nullptr;
  int threads_ = 0;
};

}  // namespace bellhop
