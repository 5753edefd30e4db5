// bellhop/callback_table.h: the Python functions that a running program can call.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bellhop/random_stream.h"

namespace bellhop {

// How a callback sees its arguments.
enum class Arguments : uint8_t {
  kViews,   // of the program's buffers, for the length of the call
  kCopies,  // that the callback may keep
  kLent,    // views, to a caller who may hold but not read them after the call
};

// How a callback gives its results.
enum class Results : uint8_t {
  kReturned,
  kWritten,  // into writable views of the program's buffers
};

// One Python function. `function` takes the argument leaves as arrays and returns
// the result leaf, or a tuple of result leaves where there is not exactly one;
// `convert` is asked for a result that is not exactly what was declared. Where results
// are written, it takes the result leaves, then the argument leaves, and returns None.
struct Callback {
  Callback(PyObject* function, PyObject* convert, std::string description,
           std::string site, Arguments arguments, Results results);
  ~Callback();
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  PyObject* function;
  PyObject* convert;
  std::string description;  // for error messages: "callback 'f'"
  std::string site;         // file:line of the user's call
  Arguments arguments;
  Results results;
  // Small argument arrays of an earlier call, by position, that nobody kept: filling
  // one again costs a fraction of making one. Null where there is none.
  std::vector<PyObject*> spares;
};

// Lists of callbacks, one for each compiled program. Read and written with the GIL held
// only. A program names a callback by its own key and the place in its list, and gets
// the address of the table as an operand, so that nothing in it is of this process.
//
// No operand brings one to a program of a plain jax.jit, whose table is `published`
// instead: the program names no table, and its key leads there. Programs of the same
// text that are alive at once have keys one after another, and a key is free again when
// its table is gone.
class CallbackTable {
 public:
  using Programs = std::unordered_map<int64_t, std::vector<std::shared_ptr<Callback>>>;

  // Without a seed, the circuits' random numbers are different in each process.
  CallbackTable(bool published, std::optional<uint64_t> seed)
      : published_(published), random_(seed) {}
  ~CallbackTable() { clear(); }
  CallbackTable(const CallbackTable&) = delete;
  CallbackTable& operator=(const CallbackTable&) = delete;

  // The published table that has a program of this key, or null.
  static const CallbackTable* published_for(int64_t key);

  bool is_published() const { return published_; }

  // Needs no GIL.
  RandomStream& random() { return random_; }

  // Returns the first key from `wanted` on that no program has, and takes it.
  int64_t reserve(int64_t wanted);
  void set_program(int64_t key, std::vector<std::shared_ptr<Callback>> callbacks);
  void clear();

  // Null where the table has no such callback.
  Callback* find(int64_t key, int64_t index) const;

  const Programs& programs() const { return programs_; }

 private:
  bool published_;
  RandomStream random_;
  Programs programs_;
};

}  // namespace bellhop
