// callbacks/callback_table.cc: the Python functions that a running program can call.
#include "callbacks/callback_table.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace bellhop {
namespace {

// A holder of the mutex takes no other lock.
struct Published {
  std::shared_mutex mutex;
  std::unordered_map<int64_t, const CallbackTable*> tables;
};

// Never destroyed, because tables may be destroyed after all static objects.
Published& published() {
  static auto* published = new Published;
  return *published;
}

// Returns the published table with a key, or null. The caller holds the mutex.
const CallbackTable* published_table(int64_t key) {
  const auto& tables = published().tables;
  const auto found = tables.find(key);
  return found == tables.end() ? nullptr : found->second;
}

// Publishes a table under a key; returns false if the key is taken.
bool publish(int64_t key, const CallbackTable* table) {
  std::unique_lock lock(published().mutex);
  return published().tables.try_emplace(key, table).second;
}

}  // namespace

std::shared_ptr<Callback> CallbackTable::find_published(int64_t key, int64_t index) {
  std::shared_lock lock(published().mutex);
  const CallbackTable* table = published_table(key);
  const auto* callback = table == nullptr ? nullptr : table->find(key, index);
  return callback == nullptr ? nullptr : *callback;
}

const CallbackTable* CallbackTable::find_published_table(int64_t key) {
  std::shared_lock lock(published().mutex);
  return published_table(key);
}

const Callback* CallbackTable::find_unique(int64_t key, int64_t index) {
  std::shared_lock lock(published().mutex);
  const CallbackTable* table = published_table(key);
  if (table == nullptr || table->published_) return nullptr;
  const auto* callback = table->find(key, index);
  return callback == nullptr ? nullptr : callback->get();
}

int64_t CallbackTable::reserve(int64_t wanted, bool unique) {
  const std::lock_guard lock(changes_);
  unique = unique || published_;
  while (keys_.contains(wanted) || (unique && !publish(wanted, this))) ++wanted;
  keys_.insert(wanted);
  if (unique) {
    has_unique_keys_ = true;
    generation_.fetch_add(1);
  }
  return wanted;
}

void CallbackTable::set_program(
    int64_t key, const std::vector<std::shared_ptr<Callback>>& callbacks) {
  auto* program = new Program{key, {}, nullptr};
  program->entries.reserve(callbacks.size());
  for (const auto& callback : callbacks) program->entries.push_back({callback});
  const std::lock_guard lock(changes_);
  auto& head = heads_[static_cast<uint64_t>(key) % kHeads];
  program->next = head.load(std::memory_order_relaxed);
  head.store(program, std::memory_order_release);
}

void CallbackTable::clear() {
  const auto keys = std::exchange(keys_, {});
  if (std::exchange(has_unique_keys_, false)) {
    std::unique_lock lock(published().mutex);
    for (const int64_t key : keys) {
      if (published_table(key) == this) published().tables.erase(key);
    }
    generation_.fetch_add(1);
  }
  for (auto& head : heads_) {
    // Deleting a program may run Python destructors, which may call this function
    // again.
    Program* program = head.exchange(nullptr);
    while (program != nullptr) delete std::exchange(program, program->next);
  }
}

std::vector<std::shared_ptr<Callback>> CallbackTable::callbacks() const {
  std::vector<std::shared_ptr<Callback>> all;
  for (const auto& head : heads_) {
    for (const Program* program = head.load(); program != nullptr;
         program = program->next) {
      for (const Entry& entry : program->entries) all.push_back(entry.callback);
    }
  }
  return all;
}

}  // namespace bellhop
