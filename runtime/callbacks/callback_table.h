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

// The callbacks of compiled programs, one list per program. A program refers to a
// callback by the program's key and an index in the list, and receives the address of
// the table as an operand, so that the compiled program does not depend on this
// process. Functions need no GIL unless stated otherwise.
//
// In a plain jax.jit, no operand carries the address of the table. The table is then
// `published`: it is found by the program's key alone. Programs of the same text that
// exist at the same time get consecutive keys. A key becomes free when its table is
// destroyed.
class CallbackTable {
 public:
  // `published`: whether programs find the table by their key alone, see above. `seed`
  // determines the circuits' random numbers; without a seed they differ in each
  // process.
  CallbackTable(bool published, std::optional<uint64_t> seed)
      : published_(published), random_(seed) {}
  ~CallbackTable() { clear(); }
  CallbackTable(const CallbackTable&) = delete;
  CallbackTable& operator=(const CallbackTable&) = delete;

  // Returns a callback of the published table that has the program, or null. The table
  // may be destroyed meanwhile; the callback is shared.
  static std::shared_ptr<Callback> find_published(int64_t key, int64_t index);

  // Returns the published table that has the program, or null. The table may be
  // destroyed meanwhile, so the result is only good for comparisons.
  static const CallbackTable* find_published_table(int64_t key);

  // The callback of a program with a unique key, where its table outlives all calls
  // that the program makes: not in a published table. Null for other callbacks.
  static const Callback* find_unique(int64_t key, int64_t index);

  // Changes whenever a program with a unique key comes or goes. What find_unique has
  // returned is valid until then.
  static uint64_t generation() { return generation_.load(std::memory_order_acquire); }

  bool is_published() const { return published_; }

  // The operand of programs that do not read the arguments of their call.
  const ProgramCall& call_without_arguments() const { return call_; }

  // The seeds of the circuits of the table's programs.
  RandomStream& random() { return random_; }

  // Reserves the first free key from `wanted` on, and returns it. If `unique`, no other
  // program of the process has the key, and find_published finds it although the table
  // is not published.
  int64_t reserve(int64_t wanted, bool unique);
  // Adds the callbacks of a program, by index. `key` is the program's, from `reserve`.
  void set_program(int64_t key,
                   const std::vector<std::shared_ptr<Callback>>& callbacks);
  // Removes all programs. Needs the GIL. No program of the table may be running, and no
  // other thread may be using the table.
  void clear();

  // Returns a callback, or null if the table does not have it. The lists only grow, so
  // no lock is needed.
  const std::shared_ptr<Callback>* find(int64_t key, int64_t index) const {
    const Program* program = head(key).load(std::memory_order_acquire);
    while (program != nullptr && program->key != key) program = program->next;
    if (program == nullptr || index < 0 ||
        index >= static_cast<int64_t>(program->entries.size())) {
      return nullptr;
    }
    return &program->entries[index].callback;
  }

  // Returns the number of reserved keys.
  size_t size() const {
    const std::lock_guard lock(changes_);
    return keys_.size();
  }
  // Returns the callbacks of all programs, which the caller then shares.
  std::vector<std::shared_ptr<Callback>> callbacks() const;

  // Calls `visitor` for the callbacks that only this table shares, until it returns
  // nonzero; returns that. During one garbage collection (identified by its number) it
  // visits the same callbacks each time: the collector first counts references and
  // later follows them, while programs continue to run and to share callbacks.
  template <typename Visitor>
  int visit(uint64_t collection, Visitor&& visitor) const;

 private:
  struct Entry {
    std::shared_ptr<Callback> callback;
    // The garbage collection in which is_held_elsewhere was computed.
    mutable uint64_t judged_in = 0;
    mutable bool is_held_elsewhere = false;
  };
  struct Program {
    int64_t key;
    std::vector<Entry> entries;
    Program* next;
  };

  // A hash table of linked lists. The keys are hashes themselves.
  static constexpr size_t kHeads = 8;
  using Heads = std::array<std::atomic<Program*>, kHeads>;
  const std::atomic<Program*>& head(int64_t key) const {
    return heads_[static_cast<uint64_t>(key) % kHeads];
  }

  static inline std::atomic<uint64_t> generation_{1};

  bool published_;
  const ProgramCall call_{this, nullptr};
  RandomStream random_;
  // Held while a program is added. A holder takes no other lock except the lock of the
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
