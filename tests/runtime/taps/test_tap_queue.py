"""The queue of taps: its limit, its order under threads, and a race check of its C++."""

import functools
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

import jax.ffi
import numpy as np
import pytest
from tests.needs import COMPILER, Need
from tests.patience import PATIENCE, join, run_at_once, wait_until

import bellhop_runtime as runtime

ROOT = Path(__file__).parents[3]


def callback(function):
    """Make the runtime's side of a function of leaves without results."""
    return runtime.Callback(function, lambda *_: None, "f", "here:1")


def tap(function, *arrays):
    runtime.Callback.tap(callback(function), [np.asarray(array) for array in arrays])


def assert_held_up(producer, issued, limit):
    """A thread that taps records of 100 numbers for minutes is held up by the limit.

    The queue lends as much again for each second in which no call ends.
    """
    start = time.monotonic()
    producer.start()
    # A record is its data and a little more.
    wait_until(lambda: len(issued) >= limit // 1200)
    producer.join(0.2)
    assert producer.is_alive()
    assert len(issued) <= limit // 800 * (1 + time.monotonic() - start)


@pytest.fixture
def small_limit():
    before = runtime.set_tap_limit(20_000)
    yield 20_000
    runtime.wait_for_taps()
    assert runtime.set_tap_limit(before) == 20_000


@pytest.fixture
def blocked():
    """The consumer, held up by a function until the event is set."""
    may_go, is_held_up = threading.Event(), threading.Event()

    def wait():
        is_held_up.set()
        assert may_go.wait(PATIENCE)

    tap(wait)
    assert is_held_up.wait(PATIENCE)
    yield may_go
    may_go.set()
    runtime.wait_for_taps()


def test_calls_come_in_order():
    seen = []
    for i in range(5000):
        tap(seen.append, i)
    runtime.wait_for_taps()
    assert [int(x) for x in seen] == list(range(5000))


def test_each_threads_calls_come_in_order_and_none_is_lost():
    seen = []
    append = callback(lambda thread, i: seen.append((int(thread), int(i))))

    def produce(thread):
        for i in range(2000):
            runtime.Callback.tap(append, [np.array(thread), np.array(i)])

    run_at_once(*(functools.partial(produce, number) for number in range(8)))
    runtime.wait_for_taps()
    assert len(seen) == 16_000
    for number in range(8):
        assert [i for thread, i in seen if thread == number] == list(range(2000))


def test_small_and_large_records_keep_their_order():
    seen = []
    sizes = [0, 1, 10, 3000, 100, 100_000, 1, 2048, 2049, 500_000, 7] * 5
    for i, size in enumerate(sizes):
        tap(lambda x, n: seen.append((int(n), x.size, x.sum())), np.full(size, float(i)), i)
    runtime.wait_for_taps()
    assert seen == [(i, size, float(i * size)) for i, size in enumerate(sizes)]


def test_full_queue_blocks_the_producer_until_there_is_room(small_limit, blocked):
    issued, seen = [], []

    def produce():
        for i in range(10_000):
            tap(lambda x: seen.append(x[0]), np.full(100, float(i)))
            issued.append(i)

    producer = threading.Thread(target=produce)
    assert_held_up(producer, issued, small_limit)
    blocked.set()
    join([producer])
    runtime.wait_for_taps()
    assert seen == list(range(10_000))


def test_record_above_the_limit_passes_alone(small_limit):
    seen = []
    for i in range(5):
        tap(lambda x: seen.append((x[0], x.size)), np.full(50_000, float(i)))
        tap(lambda x: seen.append(float(x)), 0.5)
    runtime.wait_for_taps()
    assert seen == [event for i in range(5) for event in ((float(i), 50_000), 0.5)]


def test_limit_of_nothing_takes_one_at_a_time():
    before = runtime.set_tap_limit(0)
    try:
        seen = []
        for i in range(20):
            tap(seen.append, i)
            assert len(seen) >= i
        runtime.wait_for_taps()
        assert [int(x) for x in seen] == list(range(20))
    finally:
        runtime.set_tap_limit(before)


def test_raising_the_limit_lets_a_producer_go(small_limit, blocked):
    issued = []
    produce = lambda: [issued.append(tap(lambda x: None, np.ones(100))) for _ in range(10_000)]
    producer = threading.Thread(target=produce)
    assert_held_up(producer, issued, small_limit)
    runtime.set_tap_limit(100_000_000)
    # The first call still holds all others up.
    join([producer])
    runtime.set_tap_limit(small_limit)


def test_consumer_itself_may_go_above_the_limit(small_limit):
    seen = []

    def more():
        for i in range(100):
            tap(lambda x: seen.append(x[0]), np.full(100, float(i)))

    tap(more)
    wait_until(lambda: len(seen) >= 100)
    assert seen == list(range(100))


def test_function_that_waits_for_a_thread_which_waits_for_room(small_limit):
    # Nothing tells the queue of this; it lends room to producers where a call takes long.
    seen = []

    def more():
        work = lambda: [tap(lambda x: seen.append(x[0]), np.full(100, float(i))) for i in range(30)]
        run_at_once(work)

    tap(more)
    runtime.wait_for_taps()
    runtime.wait_for_taps()
    assert seen == list(range(30))
    assert runtime.take_tap_failures() == ([], 0)
    # What was lent is taken back: again no more than the limit waits.
    may_go, issued = threading.Event(), []
    tap(lambda: may_go.wait(PATIENCE))
    produce = lambda: [issued.append(tap(lambda x: None, np.ones(100))) for _ in range(10_000)]
    producer = threading.Thread(target=produce)
    assert_held_up(producer, issued, small_limit)
    may_go.set()
    join([producer])


def test_waiting_inside_a_tapped_function_returns_at_once():
    order = []

    def first():
        tap(lambda: order.append("third"))
        runtime.wait_for_taps()
        order.append("first")

    tap(first)
    tap(lambda: order.append("second"))
    runtime.wait_for_taps()
    runtime.wait_for_taps()
    assert sorted(order) == ["first", "second", "third"]
    assert order[0] == "first"


def test_impatient_waiting_ends_where_one_call_takes_long(blocked):
    is_over = []
    tap(is_over.append, True)
    start = time.monotonic()
    runtime.wait_for_taps(is_patient=False)
    assert time.monotonic() - start > 0.9
    assert not is_over


def test_impatient_waiting_goes_on_while_calls_end():
    times = [time.monotonic()]
    for _ in range(8):
        tap(lambda: (time.sleep(0.2), times.append(time.monotonic())))
    runtime.wait_for_taps(is_patient=False)
    seen = times[1:]
    # A busy machine may make a call of one that takes long.
    assert len(seen) == 8 or max(np.diff([*times, time.monotonic()])) > 0.9
    runtime.wait_for_taps()


def test_waiting_releases_the_gil(blocked):
    ran = threading.Event()
    waiter = threading.Thread(target=runtime.wait_for_taps)
    waiter.start()
    threading.Thread(target=ran.set).start()
    assert ran.wait(PATIENCE)
    assert waiter.is_alive()
    blocked.set()
    join([waiter])


@pytest.fixture
def nobody_asks_for_the_gil():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(PATIENCE)
    yield
    sys.setswitchinterval(interval)


def test_other_threads_run_while_many_calls_wait(blocked, nobody_asks_for_the_gil):
    # Nothing but C, where the interpreter never offers the GIL.
    numbers, seen = list(range(30_000)), []
    busy = callback(functools.partial(sum, numbers))
    ends = callback(functools.partial(seen.append, None))
    for _ in range(2000):
        runtime.Callback.tap(busy, [])
        runtime.Callback.tap(ends, [])
    blocked.set()
    turns = 0
    while len(seen) < 2000 and turns < 20:
        before = len(seen)
        time.sleep(0.001)  # gives the GIL up, and then waits for it
        turns += len(seen) > before
    numbers.clear()  # what is left ends at once
    assert turns == 20


def test_exceptions_are_kept_in_order_and_later_calls_are_made():
    seen = []

    def fail(i):
        seen.append(int(i))
        if i % 2:
            raise ValueError(int(i))

    for i in range(6):
        tap(fail, i)
    runtime.wait_for_taps()
    exceptions, dropped = runtime.take_tap_failures()
    assert [error.args for error in exceptions] == [(1,), (3,), (5,)]
    assert dropped == 0
    assert seen == list(range(6))
    assert runtime.take_tap_failures() == ([], 0)


def test_of_very_many_exceptions_the_first_and_the_last_are_kept():
    def fail(i):
        raise ValueError(int(i))

    for i in range(250):
        tap(fail, i)
    runtime.wait_for_taps()
    exceptions, dropped = runtime.take_tap_failures()
    assert [error.args[0] for error in exceptions] == [*range(99), 249]
    assert dropped == 150


STRESS = r"""
#include <cstdio>
#include <thread>
#include <vector>
#include "interpreter/signals.h"
#include "taps/tap_queue.h"
namespace bellhop {
size_t memory_bytes(const BufferView& b) { return b.rank ? 8 * b.dims[0] : 8; }
std::atomic<bool> signals_are_due{false};
void look_for_signals() {}
}
using namespace bellhop;
// The queue never looks into a callback.
std::shared_ptr<Callback> fake(int* place) {
  return {reinterpret_cast<Callback*>(place), [](Callback*) {}};
}
constexpr int kThreads = 4;
int64_t last[kThreads], calls = 0, sum = 0;
bool ordered = true;
int main() {
  for (size_t limit : {size_t{1} << 30, size_t{20000}, size_t{0}}) {
    const int n = limit == 0 ? 300 : 5000;
    for (int64_t& l : last) l = -1;
    const int64_t before = calls;
    TapQueue queue([](TapQueue& queue) {
      while (auto* chunk = queue.take()) {
        queue.consume(chunk, [](Callback&, std::span<const BufferView> views) {
          const int64_t thread = static_cast<int64_t*>(views[0].data)[0];
          const int64_t i = static_cast<int64_t*>(views[1].data)[0];
          const auto* x = static_cast<int64_t*>(views[2].data);
          for (int64_t k = 0; k < views[2].dims[0]; ++k) ordered &= x[k] == i;
          ordered &= last[thread] < i;
          last[thread] = i;
          ++calls;
        });
      }
    }, limit);
    std::vector<std::thread> threads;
    int places[kThreads];
    for (int64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        auto callback = fake(places + t / 2);
        for (int64_t i = 0; i < n; ++i) {
          const int64_t size = i % 97 == 0 ? 3000 : i % 5;
          std::vector<int64_t> data(size, i);
          int64_t thread = t, number = i;
          const BufferView views[] = {{5, nullptr, 0, &thread}, {5, nullptr, 0, &number},
                                      {5, &size, 1, data.data()}};
          if (!queue.push(callback, views)) std::abort();
          if (i % 1000 == 0) queue.wait_for(queue.issued(), std::chrono::milliseconds(100));
        }
      });
    }
    for (auto& t : threads) t.join();
    while (!queue.wait_for(queue.issued(), std::chrono::milliseconds(50))) {}
    ordered &= calls - before == int64_t{kThreads} * n;
    queue.close();
    while (!queue.join(std::chrono::milliseconds(50))) {}
    ordered &= !queue.push(fake(places), {});
  }
  std::puts(ordered ? "done" : "wrong");
}
"""


@COMPILER.mark
@pytest.mark.subprocess
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_queue_has_no_races_and_no_leaks(sanitizer, tmp_path):
    compiler = shutil.which("c++")
    source, program = tmp_path / "stress.cc", tmp_path / "stress"
    source.write_text(STRESS)
    command = [compiler, "-std=c++20", "-O1", "-g", f"-fsanitize={sanitizer}", "-pthread"]
    command += ["-I", str(ROOT / "runtime"), "-I", sysconfig.get_path("include")]
    command += ["-isystem", jax.ffi.include_dir()]
    command += [str(ROOT / f"runtime/taps/{name}.cc") for name in ("tap_queue", "tap_chunk")]
    command += [str(source), "-o", str(program)]
    built = subprocess.run(command, capture_output=True, text=True)
    if "cannot find" in built.stderr:
        Need(f"-fsanitize={sanitizer}", "apt-get install g++").skip()
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr[-3000:]
