// callbacks/callback_table.h: the Python functions that a running program can call.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include "callbacks/callback.h"
#include "callbacks/program_call.h"
#include "circuit/random_stream.h"

namespace bellhop {

// Lists of callbacks, one for each compiled program. A program names a callback by its
// own key and the place in its list, and gets the address of the table as an operand,
// so that nothing in it is of this process. Needs no GIL where nothing else is said.
//
// No operand brings one to a program of a plain jax.jit, whose table is `published`
// instead: the program names no table, and its key leads there. Programs of the same
// text that are alive at once have keys one after another, and a key is free again when
// its table is gone.
class CallbackTable {
 public:
  // Without a seed, the circuits' random numbers are different in each process.
  CallbackTable(bool published, std::optional<uint64_t> seed)
      : published_(published), random_(seed) {}
  ~CallbackTable() { clear(); }
  CallbackTable(const CallbackTable&) = delete;
  CallbackTable& operator=(const CallbackTable&) = delete;

  // The callback in the published table of the program, or null. The table may go
  // meanwhile.
  static std::shared_ptr<Callback> find_published(int64_t key, int64_t index);

  // The published table that has the program, or null. The table may go meanwhile.
  static const CallbackTable* find_published_table(int64_t key);

  // The callback of a program with a unique key, where its table outlives all calls
  // that the program makes: not in a published table. Null for other callbacks.
  static const Callback* find_unique(int64_t key, int64_t index);

  // Changes whenever a program with a unique key comes or goes. What find_unique has
  // returned is valid until then.
  static uint64_t generation() { return generation_.load(std::memory_order_acquire); }

  bool is_published() const { return published_; }

  // A call whose program asks for no argument.
  const ProgramCall& call_without_arguments() const { return call_; }

  RandomStream& random() { return random_; }

  // Returns the first key from `wanted` on that no program of this table has, and takes
  // it. Where `unique`, no program of the process has the key, and find_published finds
  // it although the table is not published.
  int64_t reserve(int64_t wanted, bool unique);
  void set_program(int64_t key,
                   const std::vector<std::shared_ptr<Callback>>& callbacks);
  // Only where none of its programs runs any more, and nobody looks at it; with the
  // GIL.
  void clear();

  // Null where the table has no such callback. The lists that it goes through only
  // grow.
  const std::shared_ptr<Callback>* find(int64_t key, int64_t index) const {
    const Program* program = head(key).load(std::memory_order_acquire);
    while (program != nullptr && program->key != key) program = program->next;
    if (program == nullptr || index < 0 ||
        index >= static_cast<int64_t>(program->entries.size())) {
      return nullptr;
    }
    return &program->entries[index].callback;
  }

  size_t size() const {
    const std::lock_guard lock(changes_);
    return keys_.size();
  }
  std::vector<std::shared_ptr<Callback>> callbacks() const;

  // Visits the callbacks that nobody but this table shares. It gives the same ones
  // whenever it is asked in one collection: the collector counts references first and
  // follows them later, while programs go on and tap.
  template <typename Visitor>
  int visit(uint64_t collection, Visitor&& visitor) const;

 private:
  struct Entry {
    std::shared_ptr<Callback> callback;
    mutable uint64_t judged_in = 0;
    mutable bool is_held_elsewhere = false;
  };
  struct Program {
    int64_t key;
    std::vector<Entry> entries;
    Program* next;
  };

  // Keys are hashes.
  static constexpr size_t kHeads = 8;
  using Heads = std::array<std::atomic<Program*>, kHeads>;
  const std::atomic<Program*>& head(int64_t key) const {
    return heads_[static_cast<uint64_t>(key) % kHeads];
  }

  static inline std::atomic<uint64_t> generation_{1};

  bool published_;
  const ProgramCall call_{this, nullptr};
  RandomStream random_;
  // Held while something is added. Who holds it takes no other lock, but that of all
  // published tables.
  mutable std::mutex changes_;
  std::unordered_set<int64_t> keys_;
  bool has_unique_keys_ = false;
  Heads heads_ = {};
};

template <typename Visitor>
int CallbackTable::visit(uint64_t collection, Visitor&& visitor) const {
  for (const auto& head : heads_) {
    const Program* program = head.load(std::memory_order_relaxed);
    for (; program != nullptr; program = program->next) {
      for (const Entry& entry : program->entries) {
        if (entry.judged_in != collection) {
          entry.judged_in = collection;
          entry.is_held_elsewhere = entry.callback.use_count() > 1;
        }
        if (entry.is_held_elsewhere) continue;
        if (const int status = visitor(entry.callback); status != 0) return status;
      }
    }
  }
  return 0;
}

}  // namespace bellhop
