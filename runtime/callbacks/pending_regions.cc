// callbacks/pending_regions.cc: results of started regions, and values that stay on
// devices.
#include "callbacks/pending_regions.h"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "interpreter/gil.h"

namespace bellhop {
namespace {

struct Pending {
  RunKey run;
  PyObject* finish;
};

// A holder of the mutex takes no other lock. `count` may be read without it.
std::mutex mutex;
std::unordered_map<uint64_t, Pending> waiting;
std::atomic<size_t> count{0};
uint64_t newest = 0;

// Drops the objects of the executions that a predicate accepts.
template <typename Predicate>
void drop_where(Predicate&& is_left) noexcept {
  // Most executions have no objects.
  if (count == 0) return;
  std::vector<PyObject*> gone;
  {
    const std::lock_guard lock(mutex);
    std::erase_if(waiting, [&](const auto& entry) {
      if (!is_left(entry.second.run)) return false;
      gone.push_back(entry.second.finish);
      return true;
    });
    count = waiting.size();
  }
  if (gone.empty()) return;
  const Gil gil;
  for (PyObject* finish : gone) Py_DECREF(finish);
}

}  // namespace

uint64_t keep_pending(PyObject* finish) {
  const std::lock_guard lock(mutex);
  waiting[++newest] = {CurrentRun::get(), finish};
  count = waiting.size();
  return newest;
}

PyObject* take_pending(uint64_t future) {
  const std::lock_guard lock(mutex);
  const auto found = waiting.find(future);
  if (found == waiting.end()) return nullptr;
  PyObject* finish = found->second.finish;
  waiting.erase(found);
  count = waiting.size();
  return finish;
}

PyObject* find_pending(uint64_t handle) {
  const std::lock_guard lock(mutex);
  const auto found = waiting.find(handle);
  return found == waiting.end() ? nullptr : Py_NewRef(found->second.finish);
}

void drop_pending(int64_t run_id) noexcept {
  drop_where([&](const RunKey& run) { return run.id == run_id; });
}

void drop_call_pending(const ProgramCall& call) noexcept {
  drop_where([&](const RunKey& run) { return run.call == &call; });
}

std::size_t pending_regions() noexcept { return count; }

}  // namespace bellhop
