// runtime/handlers/callback_table.cc: which program calls which Python functions.
#include "bellhop/callback_table.h"

#include <utility>

namespace bellhop {
namespace {

// Never destroyed: tables may go after everything else in the process has.
auto& published_tables() {
  static auto* tables = new std::unordered_map<int64_t, const CallbackTable*>;
  return *tables;
}

}  // namespace

const CallbackTable* CallbackTable::published_for(int64_t key) {
  const auto& tables = published_tables();
  const auto found = tables.find(key);
  return found == tables.end() ? nullptr : found->second;
}

int64_t CallbackTable::reserve(int64_t wanted) {
  while (programs_.contains(wanted) ||
         (published_ && !published_tables().try_emplace(wanted, this).second)) {
    ++wanted;
  }
  programs_.try_emplace(wanted);
  return wanted;
}

void CallbackTable::set_program(int64_t key,
                                std::vector<std::shared_ptr<Callback>> callbacks) {
  programs_[key] = std::move(callbacks);
}

void CallbackTable::clear() {
  // What goes may come back here through a destructor of Python's.
  const Programs gone = std::exchange(programs_, {});
  if (!published_) return;
  for (const auto& program : gone) published_tables().erase(program.first);
}

Callback* CallbackTable::find(int64_t key, int64_t index) const {
  const auto program = programs_.find(key);
  if (program == programs_.end() || index < 0 ||
      index >= static_cast<int64_t>(program->second.size())) {
    return nullptr;
  }
  return program->second[index].get();
}

}  // namespace bellhop
