// threads/work_crew.h: threads that stay together for several loops in a row.
//
// The sweep through a circuit of 15 qubits is ten loops of 100 us, each of which needs
// the one before it. To wake another thread takes 10 to 50 us, so helpers of a crew are
// woken once, and look for the next loop without going to sleep.
#pragma once

#include <cstddef>
#include <memory>

#include "threads/thread_team.h"

namespace bellhop {

// One thread owns a crew and runs its loops. Results do not depend on who works.
class WorkCrew {
 public:
  static constexpr std::size_t kMostParts = 0xffff;

  explicit WorkCrew(const Helpers& helpers);
  // Stops the helper threads. The crew must not be running a loop.
  ~WorkCrew();
  WorkCrew(const WorkCrew&) = delete;
  WorkCrew& operator=(const WorkCrew&) = delete;

  // Takes notice that loops will follow which take one thread about so long. Invites
  // helpers where that, and what was expected before, is worth it.
  void expect(double nanoseconds);

  // Does the work of parts 0 to `parts` - 1, each once, on the calling thread and on
  // the helpers that have come; `make` makes the worker of a thread, on that thread.
  // Returns when all is done. A helper may destroy its worker later, so a worker's
  // destructor must not use what the worker refers to.
  //
  // Throws the exception of the first of the parts that failed; all parts before it
  // were done, and some behind it were not.
  void run(std::size_t parts, const std::function<RowWorker()>& make);

 private:
  class Shared;

  // Invites as many helpers as are wanted and not here.
  void invite();

  const Helpers& helpers_;
  const std::shared_ptr<Shared> shared_;
  double expected_ = 0;
  std::size_t wanted_ = 0;  // helpers
};

}  // namespace bellhop
