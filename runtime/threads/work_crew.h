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

  // Announces loops that will take one thread about `nanoseconds` in all. Invites
  // helper threads if the work that was announced so far is worth it.
  void expect(double nanoseconds);

  // Processes parts 0 to `parts` - 1, each once, on the calling thread and on the
  // helper threads that have come. Calls `make` on each of these threads to make its
  // worker. Returns when all parts are processed. A helper may destroy its worker
  // later, so a worker's destructor must not use objects that the worker refers to.
  //
  // Throws the exception of the failed part with the lowest index. All parts before it
  // were processed; later parts may not have been.
  void run(std::size_t parts, const std::function<RowWorker()>& make);

 private:
  class Shared;

  // Queues tasks on the pool until as many helpers as `wanted_` have been invited.
  void invite();

  const Helpers& helpers_;
  const std::shared_ptr<Shared> shared_;
  double expected_ = 0;
  std::size_t wanted_ = 0;  // helpers
};

}  // namespace bellhop
