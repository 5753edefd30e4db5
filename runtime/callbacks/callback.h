// callbacks/callback.h: a Python function that compiled programs can call.
#pragma once

#include <Python.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "profile/profile.h"

namespace bellhop {

class Bars;
class NativeFunction;

// How a callback's function passes its results.
enum class Results : uint8_t {
  kReturned,
  kWritten,  // written into arrays that it receives
};

// Small argument arrays of an earlier call, by position, that the function did not
// keep. Refilling an array costs a fraction of making one. Null entries have no array.
struct SpareArrays {
  ~SpareArrays();
  std::vector<PyObject*> arrays;
};

// A Python function with the data for its calls. `function` takes the argument leaves
// as arrays, and returns the result leaf, or a tuple unless there is exactly one
// result. `convert` converts a result that does not have the declared type. With
// Results::kWritten, `function` takes the result leaves, then the argument leaves, and
// returns None. Owns references to `function` and `convert`; needs the GIL for
// construction and destruction.
struct Callback {
  Callback(PyObject* object, PyObject* function, PyObject* convert,
           std::string description, CallSite call_site, Results results, bool in_place,
           bool takes_device, std::shared_ptr<Bars> bars,
           std::shared_ptr<const NativeFunction> native = nullptr);
  ~Callback();
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  PyObject* object;  // the Python object that contains this one; a borrowed reference
  PyObject* function;
  PyObject* convert;
  std::string description;  // for error messages: "callback 'f'"
  // The site for profiles. Its number is unique in the process.
  CallSite call_site;
  Results results;
  // Whether a function that writes its results receives views of the program's own
  // memory.
  bool in_place;
  // Whether the last argument is the index of the calling device.
  bool takes_device;
  // The progress bars of the loop that the callback reports on; null for other
  // callbacks.
  std::shared_ptr<Bars> bars;
  // The C function to call instead of `function`; null for Python callbacks.
  std::shared_ptr<const NativeFunction> native;
  // Arrays for reuse. A call takes them (leaving null) and puts them back. On a
  // separate cache line: each call writes here, while programs with taps read the other
  // members.
  alignas(64) std::atomic<SpareArrays*> spares{nullptr};
};

}  // namespace bellhop
