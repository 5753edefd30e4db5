// callbacks/pending_regions.cc: what started regions wait under.
#include "callbacks/pending_regions.h"

#include <atomic>
#include <unordered_map>
#include <utility>
#include <vector>

namespace bellhop {
namespace {

struct Pending {
  int64_t run_id;
  PyObject* finish;
};

// Changed with the GIL held; the count alone is read without it.
std::unordered_map<uint64_t, Pending> waiting;
std::atomic<size_t> count{0};
uint64_t newest = 0;

}  // namespace

uint64_t keep_pending(int64_t run_id, PyObject* finish) {
  waiting[++newest] = {run_id, finish};
  count = waiting.size();
  return newest;
}

PyObject* take_pending(uint64_t ticket) {
  const auto found = waiting.find(ticket);
  if (found == waiting.end()) return nullptr;
  PyObject* finish = found->second.finish;
  waiting.erase(found);
  count = waiting.size();
  return finish;
}

void drop_pending(int64_t run_id) noexcept {
  // Most executions that fail started nothing, and need not wait for the GIL.
  if (count == 0) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  std::vector<PyObject*> gone;
  for (auto entry = waiting.begin(); entry != waiting.end();) {
    if (entry->second.run_id == run_id) {
      gone.push_back(entry->second.finish);
      entry = waiting.erase(entry);
    } else {
      ++entry;
    }
  }
  count = waiting.size();
  // What goes may come back here.
  for (PyObject* finish : gone) Py_DECREF(finish);
  PyGILState_Release(state);
}

std::size_t pending_regions() noexcept { return waiting.size(); }

}  // namespace bellhop
