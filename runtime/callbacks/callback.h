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

// How a callback gives its results.
enum class Results : uint8_t {
  kReturned,
  kWritten,  // into arrays that it is given
};

// Small argument arrays of an earlier call, by position, that nobody kept: filling one
// again costs a fraction of making one. Null where there is none.
struct SpareArrays {
  ~SpareArrays();
  std::vector<PyObject*> arrays;
};

// `function` takes the argument leaves as arrays and returns the result leaf, or a
// tuple of result leaves where there is not exactly one; `convert` is asked for a
// result that is not exactly what was declared. Where results are written, it takes the
// result leaves, then the argument leaves, and returns None.
struct Callback {
  Callback(PyObject* object, PyObject* function, PyObject* convert,
           std::string description, CallSite call_site, Results results, bool in_place,
           bool takes_device, std::shared_ptr<Bars> bars,
           std::shared_ptr<const NativeFunction> native = nullptr);
  ~Callback();
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  PyObject* object;  // Python's, of which this is a part
  PyObject* function;
  PyObject* convert;
  std::string description;  // for error messages: "callback 'f'"
  // What profiles say of it. No other callback of the process ever has its number.
  CallSite call_site;
  Results results;
  // Whether a function that writes is lent the program's own memory for the call.
  bool in_place;
  // Whether the number of the device that it is called from is a last argument.
  bool takes_device;
  // The bars of the loop whose progress it reports; null for others.
  std::shared_ptr<Bars> bars;
  // The C function that is called in the place of `function`; null for others.
  std::shared_ptr<const NativeFunction> native;
  // Whoever calls takes them, and leaves others behind. Null while a call has them.
  // Each call writes here, and a program that taps reads the rest meanwhile.
  alignas(64) std::atomic<SpareArrays*> spares{nullptr};
};

}  // namespace bellhop
