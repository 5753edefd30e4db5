// threads/openmp_limit.h: small circuits run on the thread that calls them.
#pragma once

#include <cstddef>

namespace bellhop {

// The OpenMP controls of a plugin's own OpenMP library; null where it has none.
struct OpenMpControl {
  int (*get_max_threads)() = nullptr;
  void (*set_num_threads)(int) = nullptr;

  // Looks them up in an open library and what it depends on.
  static OpenMpControl find_in(void* library);
};

// While it lives, parallel regions that this thread enters have one thread if the
// circuit is small. A team costs more than the state's arithmetic then, and on a busy
// machine its threads wait for one another for milliseconds. Where several circuits of
// one batch run at a time, `teams` of them, they share the threads.
class OpenMpLimit {
 public:
  OpenMpLimit(const OpenMpControl& control, std::size_t qubits, std::size_t teams = 1);
  ~OpenMpLimit();
  OpenMpLimit(const OpenMpLimit&) = delete;
  OpenMpLimit& operator=(const OpenMpLimit&) = delete;

 private:
  void (*restore_)(int) = nullptr;
  int threads_ = 0;
};

}  // namespace bellhop
