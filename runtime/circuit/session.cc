// circuit/session.cc: circuits in progress, and the handles that programs hold.
#include "circuit/session.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <utility>

#include "devices/memory.h"
#include "profile/profile.h"

namespace bellhop {
namespace {

// The most sessions that may be open at a time. The table takes memory only for
// sessions that were used.
constexpr std::uint32_t kPlaces = 1u << 16;

// All sessions. Session objects are never freed, so that a handle is looked up without
// a lock; only opening and closing a session takes `mutex`. No thread holds both the
// lock of a session and this mutex.
struct Table {
  std::array<std::atomic<Session*>, kPlaces> places{};
  std::mutex mutex;
  std::uint32_t used = 0;
  std::vector<std::uint32_t> free;
  std::atomic<std::size_t> live{0};
};

Table& table() {
  // Never destroyed, because sessions may outlive static objects.
  static auto& leaked = *new Table;
  return leaked;
}

// Returns the index of a free session; throws CircuitError if there are too many.
std::uint32_t claim_place() {
  Table& all = table();
  std::lock_guard lock(all.mutex);
  if (!all.free.empty()) {
    const std::uint32_t place = all.free.back();
    all.free.pop_back();
    return place;
  }
  if (all.used == kPlaces) {
    throw CircuitError("too many open circuits: expected at most " +
                       std::to_string(kPlaces) +
                       " at a time. Execute fewer circuits concurrently.");
  }
  // Reserves memory for every index, so that release_place cannot throw.
  if (all.free.capacity() <= all.used) all.free.reserve(2 * all.used + 16);
  all.places[all.used].store(new Session, std::memory_order_release);
  return all.used++;
}

// Draws a nonzero number that programs cannot guess; each thread has a generator that
// is seeded from the system's entropy.
std::uint32_t draw_generation() {
  thread_local std::mt19937 generator = [] {
    std::random_device device;
    std::seed_seq words{device(), device(), device(), device(),
                        device(), device(), device(), device()};
    return std::mt19937(words);
  }();
  std::uint32_t drawn = 0;
  while (drawn == 0) drawn = static_cast<std::uint32_t>(generator());
  return drawn;
}

// Returns a number that no other thread of the process has or had.
std::uint64_t get_thread_number() {
  static std::atomic<std::uint64_t> newest{0};
  thread_local const std::uint64_t number = ++newest;
  return number;
}

void release_place(std::uint32_t place) noexcept {
  Table& all = table();
  std::lock_guard lock(all.mutex);
  all.free.push_back(place);
}

// Closes a session that the caller has locked, and unlocks it. Returns the device to
// its pool unless it has failed.
void close_session(Session& session, std::unique_lock<std::mutex> lock,
                   std::uint32_t place) noexcept {
  std::unique_ptr<Device> device = std::move(session.device);
  const bool failed = session.device_failed;
  const bool recording = session.tape.recording;
  session.generation = 0;
  session.tape = {};
  session.dynamic_count = {};
  session.directions = {};
  session.in_engine.reset();
  // Frees the memory of a long circuit's steps.
  if (session.steps.capacity() > 4096) session.steps = std::vector<Step>();
  session.steps.clear();
  lock.unlock();
  profile_failed_circuit(place);
  release_place(place);
  table().live.fetch_sub(1, std::memory_order_relaxed);
  if (failed) return;
  try {
    if (recording) device->plugin->StopTapeRecording();
  } catch (...) {
    return;
  }
  DevicePool& pool = device->pool;
  pool.give(std::move(device));
}

// Locks the session of a handle; throws CircuitError if the handle is invalid.
Lease lease_session(Handle handle, std::int64_t run_id) {
  if (handle.place < kPlaces) {
    Session* session = table().places[handle.place].load(std::memory_order_acquire);
    // The session of another execution may be locked for long, so its lock is not
    // requested.
    if (session != nullptr && session->run_id == run_id) {
      std::unique_lock lock(session->mutex);
      if (session->device != nullptr && session->generation == handle.generation &&
          session->run_id == run_id) {
        return Lease{*session, std::move(lock),
                     OpenMpLimit(session->device->pool.threads(), session->qubits)};
      }
    }
  }
  throw CircuitError(
      "the circuit of this operation has ended, or its execution failed, or the "
      "circuit's handle belongs to another execution. If you did not store the handle "
      "yourself, please report this as a bug in Bellhop.");
}

}  // namespace

bool is_for_tape(const Beginning& beginning) {
  return beginning.tape && beginning.shots == 0 && !is_summed(beginning.outcomes);
}

std::size_t dynamic_count_columns(std::span<const Step> steps) {
  std::size_t columns = 0;
  for (const Step& step : steps) {
    if (step.gates == nullptr || !is_dynamic_count(step.offset)) continue;
    columns = std::max(columns, column_of(step.offset) + step.params.values.size());
  }
  return columns;
}

Handle begin_session(const Beginning& beginning, std::optional<Seed> seed,
                     std::int64_t run_id) {
  // The enumeration stores an index for each shot.
  if (beginning.outcomes == Outcomes::kSharedRuns) {
    expect_numbers(beginning.shots, "shots of a circuit with drawn outcomes");
  }
  std::unique_ptr<Device> device =
      beginning.pool.take(beginning.waits ? 0 : beginning.qubits, beginning.shots);
  if (seed) {
    std::seed_seq words(seed->begin(), seed->end());
    device->generator.seed(words);
  }
  const bool on_tape = !beginning.waits && is_for_tape(beginning);
  if (on_tape) device->plugin->StartTapeRecording();

  const std::uint32_t place = claim_place();
  Session& session = *table().places[place].load(std::memory_order_acquire);
  std::lock_guard lock(session.mutex);
  session.generation = draw_generation();
  session.thread.store(get_thread_number(), std::memory_order_relaxed);
  session.serial.store(++CallSessions::begun_here_, std::memory_order_relaxed);
  session.run_id = run_id;
  session.beginning = &beginning;
  session.begun_by.store(&beginning, std::memory_order_relaxed);
  session.device = std::move(device);
  session.record = on_tape;
  session.touched = false;
  session.branches =
      OutcomeEnumeration(beginning.outcomes, beginning.record, beginning.shots);
  session.runs = SampledExecutions(beginning.outcomes);
  session.device_failed = false;
  session.tape.recording = on_tape;
  session.keeps_steps = beginning.record;
  session.waits = beginning.waits;
  session.rows = beginning.rows;
  session.borrows = false;
  session.has_forgotten = false;
  session.qubits = beginning.qubits;
  table().live.fetch_add(1, std::memory_order_relaxed);
  return Handle{place, session.generation};
}

Lease open_session(Handle handle, std::int64_t run_id) {
  return lease_session(handle, run_id);
}

std::string get_circuit_name(Handle handle, std::int64_t run_id) {
  try {
    return lease_session(handle, run_id)->beginning->circuit;
  } catch (const CircuitError&) {
    return {};
  }
}

void stop_waiting(Session& session) {
  const Beginning& beginning = *session.beginning;
  std::unique_ptr<Device> device =
      beginning.pool.take(beginning.qubits, beginning.shots);
  device->generator = session.device->generator;
  session.record = session.tape.recording = is_for_tape(beginning);
  if (session.record) device->plugin->StartTapeRecording();
  beginning.pool.give(std::exchange(session.device, std::move(device)));
  session.waits = false;
  session.in_engine.reset();
}

void require_one_circuit(const Session& session) {
  if (session.rows > 0) {
    throw CircuitError(
        "internal error: this operation is not supported for a batch of circuits: "
        "expected a single circuit, got " +
        std::to_string(session.rows) +
        " rows. Please report this as a bug in Bellhop.");
  }
}

void end_session(Handle handle, std::int64_t run_id) {
  Lease lease = lease_session(handle, run_id);
  close_session(lease.session, std::move(lease.lock), handle.place);
}

namespace {

// Closes the open sessions that a predicate accepts. The predicate is evaluated first
// without the session's lock: a session of another execution may be locked for long,
// even by this thread, since the handler of a signal may call anything.
template <typename Predicate>
void end_sessions_where(const Predicate& is_selected) noexcept {
  Table& all = table();
  if (all.live.load(std::memory_order_relaxed) == 0) return;
  for (std::uint32_t place = 0; place < kPlaces; ++place) {
    Session* session = all.places[place].load(std::memory_order_acquire);
    if (session == nullptr) return;
    if (!is_selected(*session)) continue;
    std::unique_lock lock(session->mutex);
    if (session->device != nullptr && is_selected(*session)) {
      close_session(*session, std::move(lock), place);
    }
  }
}

}  // namespace

void end_sessions(std::int64_t run_id) noexcept {
  end_sessions_where(
      [run_id](const Session& session) { return session.run_id == run_id; });
}

void end_sessions_begun_by(const Beginning& beginning) noexcept {
  end_sessions_where([&](const Session& session) {
    return session.begun_by.load(std::memory_order_relaxed) == &beginning;
  });
}

void CallSessions::end_left_open() noexcept {
  if (live_sessions() == 0) return;
  const std::uint64_t here = get_thread_number();
  end_sessions_where([&](const Session& session) {
    return session.thread.load(std::memory_order_relaxed) == here &&
           session.serial.load(std::memory_order_relaxed) > before_;
  });
}

std::size_t live_sessions() noexcept {
  return table().live.load(std::memory_order_relaxed);
}

}  // namespace bellhop
