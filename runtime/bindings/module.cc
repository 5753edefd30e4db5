// bindings/module.cc: the extension module bellhop_runtime._runtime.
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
#include "states/tiles.h"
#include "taps/taps.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace bellhop {
namespace {

// Lets the garbage collector visit the Python functions of a callback, so that it can
// free a function that holds its own program.
int traverse_callback(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const auto* callback = nb::inst_ptr<Callback>(self);
  Py_VISIT(callback->function);
  Py_VISIT(callback->convert);
  return 0;
}

// Lets the garbage collector visit the callbacks that only this table holds.
int traverse_table(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  return nb::inst_ptr<CallbackTable>(self)->visit(
      collection_number(), [visit, arg](const std::shared_ptr<Callback>& callback) {
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

// Describes the memory of NumPy arrays; throws for dtypes that XLA does not have.
std::vector<BufferView> get_buffer_views(nb::list arrays) {
  std::vector<BufferView> buffers(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!get_buffer_view(arrays[i].ptr(), &buffers[i])) throw nb::python_error();
  }
  return buffers;
}

// Calls a native function with arrays in the place of the program's buffers.
void call_native(const NativeFunction& function, std::span<const BufferView> in,
                 std::span<const BufferView> out) {
  const size_t count = in.size() + out.size();
  if (count != function.n_operands() || in.size() != function.n_arguments()) {
    throw std::invalid_argument(
        "bellhop: internal error: native function: expected " +
        std::to_string(function.n_arguments()) + " arguments of " +
        std::to_string(function.n_operands()) + " operands, got " +
        std::to_string(in.size()) + " of " + std::to_string(count) +
        ". Please report this as a bug in Bellhop.");
  }
  std::vector<char*> data;
  for (const auto views : {in, out}) {
    for (const BufferView& view : views) {
      if (!function.fits(data.size(), view.dtype, view.dims, view.rank)) {
        throw std::invalid_argument(
            "bellhop: internal error: native function: operand " +
            std::to_string(data.size()) +
            " has another dtype or shape than the function declares. Please report "
            "this as a bug in Bellhop.");
      }
      data.push_back(static_cast<char*>(view.data));
    }
  }
  nb::gil_scoped_release no_gil;
  function.call(data.data(), Helpers{});
}

// Calls a callback with arrays in the place of the program's buffers.
void call(Callback& callback, nb::list arguments, nb::list results) {
  const std::vector<BufferView> in = get_buffer_views(arguments);
  const std::vector<BufferView> out = get_buffer_views(results);
  CallTimer timer;
  timer.describe(CallTimer::Part::kCall, callback.call_site, in, out);
  if (callback.native != nullptr) return call_native(*callback.native, in, out);
  PyObject* exception = invoke(callback, in, out);
  if (exception == nullptr) return;
  timer.mark_failed();
  PyErr_Restore(Py_NewRef(Py_TYPE(exception)), exception,
                PyException_GetTraceback(exception));
  throw nb::python_error();
}

// Queues a tap from Python.
void tap_now(const std::shared_ptr<Callback>& callback, nb::list arguments) {
  const std::vector<BufferView> buffers = get_buffer_views(arguments);
  CallTimer timer;
  timer.describe(CallTimer::Part::kTap, callback->call_site, buffers, {});
  nb::gil_scoped_release no_gil;
  tap(callback, buffers);
}

// Returns the exceptions of taps, and how many more were discarded.
nb::tuple tap_failures() {
  const TapFailures failures = take_tap_failures();
  nb::list exceptions;
  for (PyObject* exception : failures.exceptions) {
    exceptions.append(nb::steal(exception));
  }
  return nb::make_tuple(exceptions, failures.dropped);
}

// Returns, for each thread with active calls, its identifier and a list of (call,
// seconds).
nb::list list_threads() {
  nb::list threads;
  for (const ThreadCalls& thread : list_active_calls()) {
    nb::list calls;
    for (const ThreadCalls::Call& active : thread.calls) {
      calls.append(nb::make_tuple(nb::steal(active.what), active.seconds));
    }
    threads.append(nb::make_tuple(thread.thread, calls));
  }
  return threads;
}

// Calls a function while `what` is the thread's innermost active call.
nb::object call_within(nb::handle what, nb::handle function) {
  const ActiveCall active(what.ptr());
  PyObject* result = call_or_sleep([&] { return PyObject_CallNoArgs(function.ptr()); });
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

nb::object call_in_default_environment(nb::handle function, nb::args args,
                                       nb::kwargs kwargs) {
  const DefaultFloatingPointEnvironment environment;
  PyObject* result = call_or_sleep(
      [&] { return PyObject_Call(function.ptr(), args.ptr(), kwargs.ptr()); });
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

nb::list rows(const Profile& profile) {
  nb::list result;
  for (const Profile::Row& row : profile.rows()) {
    result.append(nb::make_tuple(row.call_site.kind, row.call_site.name,
                                 row.call_site.site, row.call_site.definition,
                                 row.calls, row.sum.failed, row.sum.busy,
                                 row.sum.waited, row.sum.bytes_out, row.sum.bytes_in));
  }
  return result;
}

nb::bytes host_calls(const Profile& profile) {
  const std::vector<HostCall> host_calls = profile.host_calls();
  return nb::bytes(host_calls.data(), host_calls.size() * sizeof(HostCall));
}

// Records a host call of this thread that began at `begin` and ends now.
void record_span(const std::string& kind, const std::string& name,
                 const std::string& definition, int64_t begin, bool failed) {
  HostCall host_call;
  host_call.begin = begin;
  host_call.end = profile_clock();
  host_call.busy = host_call.end - begin;
  host_call.failed = failed;
  record({kind, name, "", definition}, host_call);
}

nb::list bars() {
  nb::list result;
  for (const BarSnapshot& look : look_at_bars()) {
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
  // JAX's caches keep programs, and thereby callbacks, alive until the interpreter has
  // ended.
  nb::set_leak_warnings(false);
  if (!init_numpy()) throw nb::python_error();
  init_signals();
  install_terminate_handler(is_main_thread);
  keep_freed_memory();
  m.attr("CONTRACT") = BELLHOP_CONTRACT;
  set_run_cleanups({drop_pending, fail_bars, end_sessions});
  set_run_continues(JointRun::has);

  define_fast_call(m);
  define_compiled_call(m);
  define_joint_run(m);

  m.def("targets", &targets,
        "Return the custom-call targets: name to a dict of capsules by stage.");
  m.def(
      "set_dtype",
      [](int xla_dtype, nb::handle descr) { set_dtype(xla_dtype, descr.ptr()); },
      "xla_dtype"_a, "dtype"_a, "Set the NumPy dtype of an XLA element type.");
  m.def(
      "keep_failure",
      [](nb::handle exception) { return keep_failure(exception.inc_ref().ptr()); },
      "exception"_a, "Store an exception for `take_failure`; return its id.");
  m.def(
      "take_failure",
      [](int64_t number) -> nb::object {
        PyObject* exception = take_failure(number);
        return exception == nullptr ? nb::none() : nb::steal(exception);
      },
      "number"_a, "Remove and return the exception with an id, or None.");
  m.def(
      "look_at_failure",
      [](int64_t number) {
        PyObject* exception = look_at_failure(number);
        if (exception == nullptr) throw nb::key_error(std::to_string(number).c_str());
        return nb::steal(exception);
      },
      "number"_a, "Return the exception with an id, without removing it.");

  m.def(
      "on_collection",
      [](std::string_view phase, nb::handle) {
        if (phase == "start") notify_collection_begin();
      },
      "phase"_a, "info"_a,
      "Record the start of a garbage collection; registered in gc.callbacks.");

  m.def(
      "wait_for_taps",
      [](bool is_patient) {
        if (!wait_for_taps(is_patient)) throw nb::python_error();
      },
      "is_patient"_a = true, "Wait until all taps that are queued now have ended.");
  m.def("take_tap_failures", &tap_failures,
        "Return the exceptions of taps, and how many more were discarded.");
  m.def("tap_limit", &tap_limit, "Return how many bytes of taps may wait.");
  m.def("set_tap_limit", &set_tap_limit, "bytes"_a,
        "Set how many bytes of taps may wait; return the previous limit.");
  m.def("waiting_taps", &waiting_taps, "Return how many taps have not ended.");
  m.def(
      "close_taps",
      [](int seconds) {
        if (!close_taps(seconds)) throw nb::python_error();
      },
      "seconds"_a, "Wait for all taps, at most for `seconds`, and end their thread.");
  m.def(
      "close_calls",
      [] {
        if (!close_calls()) throw nb::python_error();
      },
      "Prevent new Python calls on XLA's threads, and wait for active calls.");
  m.def(
      "forget_threads",
      [] {
        forget_taps();
        forget_bars();
        forget_profiles();
        forget_calls();
        forget_signals();
        forget_active_calls();
        JointRun::forget_all();
      },
      "Reset the state of all threads in the child of a fork.");

  m.def(
      "look_at_bars", &bars,
      "Return (label, number, began, ended, failed, count, total, seconds) of each bar "
      "that is open, or has ended since the last call.");
  m.def("end_bars", &end_bars, "table"_a,
        "End the bars of a table whose programs have all ended.");
  m.def("stop_watching_bars", &stop_watching,
        "Return whether no bars are left; then the next bar calls its label.");

  m.def("live_sessions", &live_sessions, "Return how many circuits hold a device now.");
  m.def("rows_in_engine", &engine::rows_in_engine,
        "Return how many circuits the engine has executed, counting rows of batches.");
  m.def(
      "engine_limits",
      [] {
        return nb::make_tuple(engine::kMostQubits, engine::kMostQubitsOnGpus,
                              engine::sweeps(engine::Precision::kDouble).lanes);
      },
      "Return the most qubits for which the engine replaces Lightning's devices on the "
      "CPU and on GPUs, and the number of lanes of a register.");
  m.def(
      "most_qubits_in_engine",
      [](const std::string& library, const std::string& factory,
         const std::string& kwargs) -> std::size_t {
        try {
          return engine::most_qubits(DevicePool::get(library, factory, kwargs));
        } catch (const CircuitError&) {
          return 0;  // executing a circuit reports the error
        }
      },
      "library"_a, "factory"_a, "kwargs"_a,
      "Return the most qubits for which the engine replaces a plugin.");
  m.def("plans_made", &engine::plans_made,
        "Return how many plans of gates the engine has compiled.");
  m.def("amplitudes_passed", &engine::amplitudes_passed,
        "Return how many amplitudes the engine's groups of operations read and wrote.");
  define_run_values(m);
  m.def("release_run", &release_run, "run_id"_a,
        nb::call_guard<nb::gil_scoped_release>(),
        "Close the circuits and drop the regions of a failed execution.");

  nb::class_<Profile>(m, "Profile", "The host calls between start and stop.")
      .def(nb::init<size_t>(), "limit"_a)
      .def("start", &Profile::start)
      .def("stop", &Profile::stop)
      .def("rows", &rows,
           "Return (kind, name, site, definition, calls, failed calls, nanoseconds, "
           "nanoseconds waiting for the GIL, bytes out, bytes in) of each call site.")
      .def("host_calls", &host_calls,
           "Return all host calls, as bytes of an array of the C++ structure.")
      .def_static("add_bytes", &CallTimer::add_bytes, "out"_a, "back"_a,
                  "Add bytes to the timed call of this thread; negative to subtract.");
  m.def("under_way", &list_threads,
        "Return, for each thread with active calls, its identifier and a list of "
        "(object, "
        "seconds), outermost call first.");
  m.def("within", &call_within, "what"_a, "function"_a,
        "Call a function while `what` is this thread's innermost active call.");
  m.def("call_in_default_environment", &call_in_default_environment, "function"_a,
        "args"_a, "kwargs"_a,
        "Call a function in the default floating-point environment.");
  m.def("begin_run", &begin_run, "Count a run of a compiled function as active.");
  m.def("end_run", &end_run, "End a run that begin_run has counted.");
  m.def("runs_under_way", &count_runs, "Return the number of active runs.");
  m.def("record_span", &record_span, "kind"_a, "name"_a, "definition"_a, "begin"_a,
        "failed"_a,
        "Record a host call of this thread that began at `begin` and ends now.");
  m.def(
      "memory_for_process",
      [](bool all, const std::string& root) {
        return memory_for_process(all ? Memory::kAll : Memory::kFree, root);
      },
      "all"_a = true, "root"_a = "",
      "Return the bytes that the process may have, or, if not `all`, may still "
      "allocate.");
  m.def("profile_clock", &profile_clock,
        "Return the nanoseconds of the clock of profiles.");
  m.def("profile_thread", &profile_thread,
        "Return the number of this thread in profiles.");

  nb::class_<Bars>(m, "Bars", "The progress bars of a loop, one for each execution.")
      .def(nb::init<>());

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
                CallSite{std::move(kind), std::move(name), std::move(site),
                         std::move(definition)},
                writes ? Results::kWritten : Results::kReturned, in_place, takes_device,
                std::move(bars), std::move(native));
          },
          "function"_a, "convert"_a, "description"_a, "site"_a, "writes"_a = false,
          "in_place"_a = false, "takes_device"_a = false, "bars"_a = nb::none(),
          "kind"_a = "callback", "name"_a = "", "definition"_a = "",
          "native"_a = nb::none())
      .def("__call__", &call, "arguments"_a, "results"_a,
           "Call the function as a program does, with arrays in the place of buffers.")
      .def_static("tap", &tap_now, "callback"_a, "arguments"_a,
                  "Queue a call of the function for the thread of taps.")
      .def_prop_ro("description", [](const Callback& self) { return self.description; })
      .def_prop_ro("site", [](const Callback& self) { return self.call_site.site; })
      .def_prop_ro("definition",
                   [](const Callback& self) { return self.call_site.definition; });

  nb::class_<CallbackTable>(m, "CallbackTable", nb::type_slots(table_slots),
                            "The callbacks of compiled programs, by program.")
      .def(nb::init<bool, std::optional<uint64_t>>(), "published"_a,
           "seed"_a = nb::none())
      .def("reserve", &CallbackTable::reserve, "key"_a, "unique"_a = false,
           "Reserve the first free key from this one on; return it.")
      .def("set_program", &CallbackTable::set_program, "key"_a, "callbacks"_a)
      .def(
          "seed_unless_given",
          [](CallbackTable& self, std::uint64_t seed) {
            self.random().seed_unless_given(seed);
          },
          "seed"_a, "Use a seed, unless one was given.")
      .def("clear", &CallbackTable::clear)
      .def("__len__", [](const CallbackTable& self) { return self.size(); })
      .def_prop_ro("callbacks", &CallbackTable::callbacks,
                   "All callbacks of the table.")
      .def_prop_ro(
          "address",
          [](const CallbackTable& self) {
            return self.is_published()
                       ? 0
                       : reinterpret_cast<uint64_t>(&self.call_without_arguments());
          },
          "The operand for programs; 0 for a published table.");
}

}  // namespace bellhop
