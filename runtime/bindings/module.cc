// runtime/bindings/module.cc: the extension module; gathers what the handlers offer.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "arrays/large_memory.h"
#include "arrays/numpy_arrays.h"
#include "bindings/compiled_call.h"
#include "bindings/fast_call.h"
#include "bindings/joint_run.h"
#include "bindings/native_function.h"
#include "bindings/run_values.h"
#include "callbacks/callback_table.h"
#include "callbacks/invocation.h"
#include "callbacks/pending_regions.h"
#include "circuit/session.h"
#include "compiled_gates/plan.h"
#include "devices/device_pool.h"
#include "devices/error.h"
#include "devices/memory_limits.h"
#include "engine/batch_execution.h"
#include "engine/engine_dispatch.h"
#include "ffi/joint_runs.h"
#include "ffi/registry.h"
#include "ffi/run_cleanup.h"
#include "interpreter/daemon_threads.h"
#include "interpreter/failures.h"
#include "interpreter/floating_point_environment.h"
#include "interpreter/garbage_collector.h"
#include "interpreter/python_call.h"
#include "interpreter/signals.h"
#include "kernels/kernels.h"
#include "native/native_function.h"
#include "profile/active_calls.h"
#include "profile/profile.h"
#include "progress/progress.h"
#include "taps/taps.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace bellhop {
namespace {

// The garbage collector sees through a table to the Python functions in it, so
// that a function which holds its own program can be freed.
int traverse_callback(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const auto* callback = nb::inst_ptr<Callback>(self);
  Py_VISIT(callback->function);
  Py_VISIT(callback->convert);
  return 0;
}

int traverse_table(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  return nb::inst_ptr<CallbackTable>(self)->visit(
      collection(), [visit, arg](const std::shared_ptr<Callback>& callback) {
        Py_VISIT(callback->object);
        return 0;
      });
}

int clear_table(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<CallbackTable>(self)->clear();
  return 0;
}

PyType_Slot callback_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse_callback)}, {0, nullptr}};
PyType_Slot table_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_table)},
                             {Py_tp_clear, reinterpret_cast<void*>(clear_table)},
                             {0, nullptr}};

std::vector<BufferView> buffers_of(nb::list arrays) {
  std::vector<BufferView> buffers(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!buffer_of(arrays[i].ptr(), &buffers[i])) throw nb::python_error();
  }
  return buffers;
}

void call_native(const NativeFunction& function, std::span<const BufferView> in,
                 std::span<const BufferView> out) {
  std::vector<char*> data;
  for (const auto views : {in, out}) {
    for (const BufferView& view : views) {
      const size_t operand = data.size();
      if (operand == function.n_operands() ||
          !function.fits(operand, view.dtype, view.dims, view.rank)) {
        throw std::invalid_argument("arrays do not fit the native function");
      }
      data.push_back(static_cast<char*>(view.data));
    }
  }
  if (data.size() != function.n_operands() || in.size() != function.n_arguments()) {
    throw std::invalid_argument("arrays do not fit the native function");
  }
  nb::gil_scoped_release no_gil;
  function.call(data.data(), Helpers{});
}

void call(Callback& callback, nb::list arguments, nb::list results) {
  const std::vector<BufferView> in = buffers_of(arguments);
  const std::vector<BufferView> out = buffers_of(results);
  CallTimer timer;
  timer.of(CallTimer::Part::kCall, callback.place, in, out);
  if (callback.native != nullptr) return call_native(*callback.native, in, out);
  PyObject* exception = invoke(callback, in, out);
  if (exception == nullptr) return;
  timer.fails();
  PyErr_Restore(Py_NewRef(Py_TYPE(exception)), exception,
                PyException_GetTraceback(exception));
  throw nb::python_error();
}

void tap_now(const std::shared_ptr<Callback>& callback, nb::list arguments) {
  const std::vector<BufferView> buffers = buffers_of(arguments);
  CallTimer timer;
  timer.of(CallTimer::Part::kTap, callback->place, buffers, {});
  nb::gil_scoped_release no_gil;
  tap(callback, buffers);
}

nb::tuple tap_failures() {
  const TapFailures failures = take_tap_failures();
  nb::list exceptions;
  for (PyObject* exception : failures.exceptions) {
    exceptions.append(nb::steal(exception));
  }
  return nb::make_tuple(exceptions, failures.dropped);
}

nb::list under_way() {
  nb::list threads;
  for (const StepsOfThread& thread : steps_under_way()) {
    nb::list steps;
    for (const StepsOfThread::Step& step : thread.steps) {
      steps.append(nb::make_tuple(nb::steal(step.what), step.seconds));
    }
    threads.append(nb::make_tuple(thread.thread, steps));
  }
  return threads;
}

nb::object within(nb::handle what, nb::handle function) {
  const UnderWay here(what.ptr());
  PyObject* result =
      sleeps_if_ended([&] { return PyObject_CallNoArgs(function.ptr()); });
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

nb::object call_in_default_environment(nb::handle function, nb::args args,
                                       nb::kwargs kwargs) {
  const DefaultFloatingPointEnvironment environment;
  PyObject* result = sleeps_if_ended(
      [&] { return PyObject_Call(function.ptr(), args.ptr(), kwargs.ptr()); });
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

nb::list rows(const Profile& profile) {
  nb::list result;
  for (const Profile::Row& row : profile.rows()) {
    result.append(nb::make_tuple(row.place.kind, row.place.name, row.place.site,
                                 row.place.definition, row.calls, row.sum.failed,
                                 row.sum.busy, row.sum.waited, row.sum.bytes_out,
                                 row.sum.bytes_in));
  }
  return result;
}

nb::bytes crossings(const Profile& profile) {
  const std::vector<Crossing> crossings = profile.crossings();
  return nb::bytes(crossings.data(), crossings.size() * sizeof(Crossing));
}

// Of the thread that asks, until now.
void record_span(const std::string& kind, const std::string& name,
                 const std::string& definition, int64_t begin, bool failed) {
  Crossing crossing;
  crossing.begin = begin;
  crossing.end = profile_clock();
  crossing.busy = crossing.end - begin;
  crossing.failed = failed;
  record({kind, name, "", definition}, crossing);
}

nb::list bars() {
  nb::list result;
  for (const BarLook& look : look_at_bars()) {
    result.append(nb::make_tuple(nb::borrow(look.callback->function), look.number,
                                 look.began, look.ended, look.failed, look.count,
                                 look.total, look.seconds));
  }
  return result;
}

nb::dict targets() {
  nb::dict result;
  for (const Target* target : Target::all()) {
    nb::dict stages;
    if (target->instantiate != nullptr) {
      stages["instantiate"] = nb::capsule(reinterpret_cast<void*>(target->instantiate));
    }
    stages["execute"] = nb::capsule(reinterpret_cast<void*>(target->execute));
    result[target->name] = stages;
  }
  return result;
}

}  // namespace

NB_MODULE(_runtime, m) {
  m.doc() = "The native half of bellhop_runtime.";
  // JAX's caches hold programs, and so their callbacks, until the interpreter is gone.
  nb::set_leak_warnings(false);
  if (!init_numpy()) throw nb::python_error();
  init_signals();
  let_ended_threads_sleep(is_main_thread);
  keep_freed_memory();
  m.attr("CONTRACT") = BELLHOP_CONTRACT;
  set_run_cleanups({drop_pending, fail_bars, end_sessions});
  set_goes_on(JointRun::has);

  define_fast_call(m);
  define_compiled_call(m);
  define_joint_run(m);

  m.def("targets", &targets, "Custom-call targets, by name, as capsules by stage.");
  m.def(
      "set_dtype",
      [](int xla_dtype, nb::handle descr) { set_dtype(xla_dtype, descr.ptr()); },
      "xla_dtype"_a, "dtype"_a, "Name the NumPy dtype of an XLA element type.");
  m.def(
      "keep_failure",
      [](nb::handle exception) { return keep_failure(exception.inc_ref().ptr()); },
      "exception"_a, "Keep an exception for `take_failure`; return its number.");
  m.def(
      "take_failure",
      [](int64_t number) -> nb::object {
        PyObject* exception = take_failure(number);
        return exception == nullptr ? nb::none() : nb::steal(exception);
      },
      "number"_a, "The exception that a failed run names, or None.");
  m.def(
      "look_at_failure",
      [](int64_t number) {
        PyObject* exception = look_at_failure(number);
        if (exception == nullptr) throw nb::key_error(std::to_string(number).c_str());
        return nb::steal(exception);
      },
      "number"_a, "The exception of a number, which goes on waiting.");

  m.def(
      "on_collection",
      [](std::string_view phase, nb::handle) {
        if (phase == "start") collection_begins();
      },
      "phase"_a, "info"_a,
      "Say that the garbage collector is about to look at tables: one of "
      "gc.callbacks.");

  m.def(
      "wait_for_taps",
      [](bool is_patient) {
        if (!wait_for_taps(is_patient)) throw nb::python_error();
      },
      "is_patient"_a = true, "Wait until all taps so far are over.");
  m.def("take_tap_failures", &tap_failures,
        "The exceptions of taps so far, and how many more there were.");
  m.def("tap_limit", &tap_limit, "How many bytes of taps may wait.");
  m.def("set_tap_limit", &set_tap_limit, "bytes"_a,
        "Set how many bytes may wait, and return what it was.");
  m.def("waiting_taps", &waiting_taps, "How many taps are not over yet.");
  m.def(
      "close_taps",
      [](int seconds) {
        if (!close_taps(seconds)) throw nb::python_error();
      },
      "seconds"_a, "Wait for all taps, no longer than that, and end their thread.");
  m.def(
      "close_calls",
      [] {
        if (!close_calls()) throw nb::python_error();
      },
      "Let programs on XLA's threads call no more, and wait for calls under way.");
  m.def(
      "forget_threads",
      [] {
        forget_taps();
        forget_bars();
        forget_profiles();
        forget_calls();
        forget_signals();
        forget_steps();
        JointRun::forget_all();
      },
      "Begin anew in the child of a fork.");

  m.def(
      "look_at_bars", &bars,
      "Label, number, began, ended, failed, count, total and seconds of each bar that "
      "goes on, or has ended since the last time.");
  m.def("end_bars", &end_bars, "table"_a,
        "End the bars of a table whose programs have all returned.");
  m.def("stop_watching_bars", &stop_watching,
        "Whether there is no bar: then the next one calls its label.");

  m.def("live_sessions", &live_sessions, "How many circuits hold a device now.");
  m.def("rows_in_engine", &engine::rows_in_engine,
        "How many circuits, and rows of batches, the engine has run.");
  m.def(
      "engine_limits",
      [] {
        return nb::make_tuple(engine::kMostQubits, engine::kMostQubitsOnGpus,
                              engine::sweeps(engine::Precision::kDouble).lanes);
      },
      "The qubits of the largest circuits that the engine runs of Lightning's devices "
      "on the CPU and on GPUs, and how many numbers it works on at a time.");
  m.def(
      "most_qubits_in_engine",
      [](const std::string& library, const std::string& factory,
         const std::string& kwargs) -> std::size_t {
        try {
          return engine::most_qubits(DevicePool::get(library, factory, kwargs));
        } catch (const CircuitError&) {
          return 0;  // a run says what is wrong with it
        }
      },
      "library"_a, "factory"_a, "kwargs"_a,
      "The qubits of the largest circuits of a plugin that the engine runs.");
  m.def("plans_made", &engine::plans_made, "How many plans of gates the engine made.");
  define_values_of_runs(m);
  m.def("release_run", &release_run, "run_id"_a,
        nb::call_guard<nb::gil_scoped_release>(),
        "End the circuits and drop the regions that a failed run left.");

  nb::class_<Profile>(m, "Profile", "What crosses the border between start and stop.")
      .def(nb::init<size_t>(), "limit"_a)
      .def("start", &Profile::start)
      .def("stop", &Profile::stop)
      .def("rows", &rows,
           "Kind, name, site, definition, calls, failed ones, nanoseconds, those for "
           "the "
           "GIL, bytes out and bytes in of each place.")
      .def("crossings", &crossings, "All crossings, as an array of the C++ structure.")
      .def_static("add_bytes", &CallTimer::add_bytes, "out"_a, "back"_a,
                  "More bytes, or less, for the call in this thread that is timed.");
  m.def("under_way", &under_way,
        "Of each thread that is in a step: its identifier, and of each step, the "
        "outermost "
        "first, what it is and its seconds.");
  m.def("within", &within, "what"_a, "function"_a,
        "Call a function, as a step of this thread that an object describes.");
  m.def("call_in_default_environment", &call_in_default_environment, "function"_a,
        "args"_a, "kwargs"_a,
        "Call a function in the default floating-point environment.");
  m.def("begin_run", &begin_run, "Count a run of a compiled function, until it ends.");
  m.def("end_run", &end_run, "End a run that was counted.");
  m.def("runs_under_way", &runs_under_way, "How many runs have begun and not ended.");
  m.def("record_span", &record_span, "kind"_a, "name"_a, "definition"_a, "begin"_a,
        "failed"_a, "Record what this thread did since `begin`.");
  m.def(
      "memory_for_process",
      [](bool all, const std::string& root) {
        return memory_for_process(all ? Memory::kAll : Memory::kFree, root);
      },
      "all"_a = true, "root"_a = "",
      "The bytes that the process may have, or may have besides those that it has.");
  m.def("profile_clock", &profile_clock, "Nanoseconds of the clock of profiles.");
  m.def("profile_thread", &profile_thread, "The number of this thread in profiles.");

  nb::class_<Bars>(m, "Bars", "How far the runs of a loop are.").def(nb::init<>());

  define_native_function(m);
  nb::class_<Callback>(m, "Callback", nb::type_slots(callback_slots),
                       "A Python function that compiled programs can call.")
      .def(
          "__init__",
          [](nb::pointer_and_handle<Callback> self, nb::callable function,
             nb::callable convert, std::string description, std::string site,
             bool writes, bool in_place, bool takes_device, std::shared_ptr<Bars> bars,
             std::string kind, std::string name, std::string definition,
             std::shared_ptr<NativeFunction> native) {
            new (self.p) Callback(
                self.h.ptr(), function.ptr(), convert.ptr(), std::move(description),
                Place{std::move(kind), std::move(name), std::move(site),
                      std::move(definition)},
                writes ? Results::kWritten : Results::kReturned, in_place, takes_device,
                std::move(bars), std::move(native));
          },
          "function"_a, "convert"_a, "description"_a, "site"_a, "writes"_a = false,
          "in_place"_a = false, "takes_device"_a = false, "bars"_a = nb::none(),
          "kind"_a = "callback", "name"_a = "", "definition"_a = "",
          "native"_a = nb::none())
      .def("__call__", &call, "arguments"_a, "results"_a,
           "Call it as a program does, with arrays for the program's buffers.")
      .def_static("tap", &tap_now, "callback"_a, "arguments"_a,
                  "Leave a call of it to the thread that makes those of all taps.")
      .def_prop_ro("description", [](const Callback& self) { return self.description; })
      .def_prop_ro("site", [](const Callback& self) { return self.place.site; })
      .def_prop_ro("definition",
                   [](const Callback& self) { return self.place.definition; });

  nb::class_<CallbackTable>(m, "CallbackTable", nb::type_slots(table_slots),
                            "The callbacks of compiled programs, by program.")
      .def(nb::init<bool, std::optional<uint64_t>>(), "published"_a,
           "seed"_a = nb::none())
      .def("reserve", &CallbackTable::reserve, "key"_a, "unique"_a = false,
           "Take the first key from this one on that no program has.")
      .def("set_program", &CallbackTable::set_program, "key"_a, "callbacks"_a)
      .def(
          "seed_unless_given",
          [](CallbackTable& self, std::uint64_t seed) {
            self.random().seed_unless_given(seed);
          },
          "seed"_a, "Take a seed, unless there is one.")
      .def("clear", &CallbackTable::clear)
      .def("__len__", [](const CallbackTable& self) { return self.size(); })
      .def_prop_ro("callbacks", &CallbackTable::callbacks, "All that it holds.")
      .def_prop_ro(
          "address",
          [](const CallbackTable& self) {
            return self.is_published()
                       ? 0
                       : reinterpret_cast<uint64_t>(&self.call_without_arguments());
          },
          "What programs take as their table; 0 for a published one.");
}

}  // namespace bellhop
