// interpreter/garbage_collector.cc: count and start garbage collections.
#include "interpreter/garbage_collector.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "interpreter/gil.h"

namespace bellhop {

namespace nb = nanobind;

namespace {

constexpr std::chrono::milliseconds kLookForCollection{1};
constexpr std::chrono::seconds kPatience{10};

std::atomic<uint64_t> collections{0};
thread_local uint64_t begun_here = 0;

}  // namespace

void notify_collection_begin() {
  collections.fetch_add(1);
  ++begun_here;
}

uint64_t collection_number() { return collections.load(); }

void collect_garbage() {
  const uint64_t before = begun_here;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    try {
      // gc.collect() does nothing while another thread runs a collection.
      nb::module_::import_("gc").attr("collect")();
    } catch (const nb::python_error&) {
    }
    if (begun_here != before || std::chrono::steady_clock::now() > deadline) return;
    const NoGil no_gil;
    std::this_thread::sleep_for(kLookForCollection);
  }
}

}  // namespace bellhop
