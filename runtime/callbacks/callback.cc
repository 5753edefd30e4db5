// callbacks/callback.cc: a Python function that compiled programs can call.
#include "callbacks/callback.h"

#include <atomic>
#include <utility>

namespace bellhop {
namespace {

uint64_t next_number() {
  static std::atomic<uint64_t> numbers = 0;
  return ++numbers;
}

}  // namespace

SpareArrays::~SpareArrays() {
  for (PyObject* array : arrays) Py_XDECREF(array);
}

Callback::Callback(PyObject* object, PyObject* function, PyObject* convert,
                   std::string description, CallSite call_site, Results results,
                   bool in_place, bool takes_device, std::shared_ptr<Bars> bars,
                   std::shared_ptr<const NativeFunction> native)
    : object(object),
      function(Py_NewRef(function)),
      convert(Py_NewRef(convert)),
      description(std::move(description)),
      call_site(std::move(call_site)),
      results(results),
      in_place(in_place),
      takes_device(takes_device),
      bars(std::move(bars)),
      native(std::move(native)) {
  this->call_site.number = next_number();
}

Callback::~Callback() {
  Py_DECREF(function);
  Py_DECREF(convert);
  delete spares.load();
}

}  // namespace bellhop
