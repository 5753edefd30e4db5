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

Spares::~Spares() {
  for (PyObject* array : arrays) Py_XDECREF(array);
}

Callback::Callback(PyObject* object, PyObject* function, PyObject* convert,
                   std::string description, Place place, Results results, bool in_place,
                   bool takes_device, std::shared_ptr<Bars> bars,
                   std::shared_ptr<const NativeFunction> native)
    : object(object),
      function(Py_NewRef(function)),
      convert(Py_NewRef(convert)),
      description(std::move(description)),
      place(std::move(place)),
      results(results),
      in_place(in_place),
      takes_device(takes_device),
      bars(std::move(bars)),
      native(std::move(native)) {
  this->place.number = next_number();
}

Callback::~Callback() {
  Py_DECREF(function);
  Py_DECREF(convert);
  delete spares.load();
}

}  // namespace bellhop
