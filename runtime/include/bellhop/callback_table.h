// bellhop/callback_table.h: the Python functions that a running program can call.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace bellhop {

// How a callback sees its arguments.
enum class Arguments : uint8_t {
  kViews,   // of the program's buffers, for the length of the call
  kCopies,  // that the callback may keep
};

// One Python function. `function` takes the argument leaves as arrays and returns
// the result leaf, or a tuple of result leaves where there is not exactly one;
// `convert` is asked for a result that is not exactly what was declared.
struct Callback {
  Callback(PyObject* function, PyObject* convert, std::string name, std::string site,
           Arguments arguments);
  ~Callback();
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  PyObject* function;
  PyObject* convert;
  std::string name;
  std::string site;
  Arguments arguments;
  // Small argument arrays of an earlier call, by position, that nobody kept: filling
  // one again costs a fraction of making one. Null where there is none.
  std::vector<PyObject*> spares;
};

// The callbacks of a qjit function: a list for each of its compiled programs.
// Read and written with the GIL held only. A program names a callback by the key
// of the program and the place in its list; the address of the table reaches the
// program as an operand, so nothing in the compiled module is of this process.
class CallbackTable {
 public:
  // `catches` says whether someone takes the exceptions of failed runs, see failures.h.
  explicit CallbackTable(bool catches) : catches_(catches) {}

  bool catches() const { return catches_; }

  // Returns the first key from `wanted` on that no program has, and takes it.
  int64_t reserve(int64_t wanted) {
    while (!programs_.try_emplace(wanted).second) ++wanted;
    return wanted;
  }

  void set_program(int64_t key, std::vector<std::shared_ptr<Callback>> callbacks) {
    programs_[key] = std::move(callbacks);
  }

  Callback* find(int64_t key, int64_t index) const {
    const auto program = programs_.find(key);
    if (program == programs_.end() || index < 0 ||
        index >= static_cast<int64_t>(program->second.size())) {
      return nullptr;
    }
    return program->second[index].get();
  }

  const std::unordered_map<int64_t, std::vector<std::shared_ptr<Callback>>>& programs()
      const {
    return programs_;
  }
  void clear() {
    // What goes may come back here through a destructor of Python's.
    const auto gone = std::exchange(programs_, {});
  }

 private:
  bool catches_;
  std::unordered_map<int64_t, std::vector<std::shared_ptr<Callback>>> programs_;
};

}  // namespace bellhop
