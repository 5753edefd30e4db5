// profile/profile.cc: count and time the host calls of programs.
#include "profile/profile.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

#include "arrays/numpy_arrays.h"

namespace bellhop {

namespace {

constexpr std::string_view kEngine = ", engine";

// Returns a key that is equal for host calls of the same site.
std::string make_key(const CallSite& site) {
  return site.number != 0 ? site.kind + std::to_string(site.number)
                          : site.kind + '\n' + site.name + '\n' + site.definition;
}

}  // namespace

// Distributes host calls to all started profiles, and collects the operations of
// circuits in progress.
class Recorder {
 public:
  // Starts a profile.
  void open(Profile* profile) {
    std::lock_guard lock(mutex_);
    profile->began_ = profile_clock();
    profiles_.push_back(profile);
    // Circuits that began before the first profile started are not recorded.
    if (profiles_.size() == 1) circuits_.clear();
    open_profiles.store(static_cast<int>(profiles_.size()));
  }

  // Stops a profile.
  void close(Profile* profile) {
    std::lock_guard lock(mutex_);
    std::erase(profiles_, profile);
    open_profiles.store(static_cast<int>(profiles_.size()));
  }

  // Adds a host call to each profile that had started when the call began.
  void record(const CallSite& site, HostCall host_call) {
    const std::string key = make_key(site);
    std::lock_guard lock(mutex_);
    for (Profile* profile : profiles_) {
      if (host_call.begin < profile->began_) continue;
      const auto [found, is_new] =
          profile->by_key_.try_emplace(key, profile->rows_.size());
      if (is_new) profile->rows_.push_back({site});
      host_call.row = found->second;
      Profile::Row& row = profile->rows_[found->second];
      row.calls += host_call.calls;
      row.sum.busy += host_call.busy;
      row.sum.waited += host_call.waited;
      row.sum.bytes_out += host_call.bytes_out;
      row.sum.bytes_in += host_call.bytes_in;
      row.sum.failed += host_call.failed;
      if (profile->host_calls_.size() < profile->limit_) {
        profile->host_calls_.push_back(host_call);
      }
    }
  }

  // Returns a copy of a profile's member, taken under the lock.
  template <typename T>
  T read(const T& part) {
    std::lock_guard lock(mutex_);
    return part;
  }

  // A circuit in progress: its site, and the sum of its operations so far.
  struct Circuit {
    CallSite call_site;
    HostCall host_call;
  };

  // Starts to record a circuit with a session index.
  void put(uint32_t session_index, Circuit circuit) {
    std::lock_guard lock(mutex_);
    circuits_[session_index] = std::move(circuit);
  }

  // Adds an operation to a circuit.
  void add(uint32_t session_index, const HostCall& step) {
    std::lock_guard lock(mutex_);
    const auto found = circuits_.find(session_index);
    if (found == circuits_.end()) return;
    HostCall& host_call = found->second.host_call;
    host_call.busy += step.busy;
    host_call.bytes_out += step.bytes_out;
    host_call.bytes_in += step.bytes_in;
  }

  // Adds the engine to the kind of a circuit.
  void mark_engine(uint32_t session_index) {
    std::lock_guard lock(mutex_);
    const auto found = circuits_.find(session_index);
    if (found == circuits_.end()) return;
    std::string& kind = found->second.call_site.kind;
    if (!kind.ends_with(kEngine)) kind += kEngine;
  }

  // Removes a circuit and returns true, or false if it began before all profiles.
  bool take(uint32_t session_index, Circuit& circuit) {
    std::lock_guard lock(mutex_);
    const auto found = circuits_.find(session_index);
    if (found == circuits_.end()) return false;
    circuit = std::move(found->second);
    circuits_.erase(found);
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<Profile*> profiles_;
  // Circuits in progress, by session index.
  std::unordered_map<uint32_t, Circuit> circuits_;
};

namespace {

// Never destroyed, because programs may outlive static objects. Replaced in the child
// of a fork.
Recorder* recorder = new Recorder;

// What each CallTimer::Part appends to the kind of its row.
constexpr const char* kSuffixes[] = {"", " start", " wait", "", " call"};

int64_t sum_bytes(std::span<const BufferView> buffers) {
  int64_t bytes = 0;
  for (const BufferView& buffer : buffers) bytes += memory_bytes(buffer);
  return bytes;
}

const XLA_FFI_Buffer& buffer_at(void** buffers, int64_t index) {
  return *static_cast<const XLA_FFI_Buffer*>(buffers[index]);
}

// Returns the bytes of the buffers from index `first` on; the first buffer may be the
// circuit's handle.
int64_t sum_bytes_from(void** buffers, int64_t first, int64_t size) {
  int64_t bytes = 0;
  for (int64_t i = first; i < size; ++i) {
    const XLA_FFI_Buffer& buffer = buffer_at(buffers, i);
    bytes += memory_bytes({buffer.dtype, buffer.dims, buffer.rank, buffer.data, true});
  }
  return bytes;
}

// Returns the session index in a circuit's handle.
uint32_t read_session_index(const XLA_FFI_Buffer& handle) {
  return *static_cast<const uint32_t*>(handle.data);
}

// Returns the attribute with a name, or null.
const void* find_attribute(const XLA_FFI_Attrs& attributes, std::string_view name) {
  for (int64_t i = 0; i < attributes.size; ++i) {
    const XLA_FFI_ByteSpan& found = *attributes.names[i];
    if (std::string_view(found.ptr, found.len) == name) return attributes.attrs[i];
  }
  return nullptr;
}

// Returns a string attribute, or an empty string if it is missing.
std::string find_string(const XLA_FFI_Attrs& attributes, std::string_view name) {
  const auto* span =
      static_cast<const XLA_FFI_ByteSpan*>(find_attribute(attributes, name));
  return span == nullptr ? std::string() : std::string(span->ptr, span->len);
}

// Returns an integer attribute, or 0 if it is missing.
int64_t find_integer(const XLA_FFI_Attrs& attributes, std::string_view name) {
  const auto* scalar =
      static_cast<const XLA_FFI_Scalar*>(find_attribute(attributes, name));
  return scalar == nullptr ? 0 : *static_cast<const int64_t*>(scalar->value);
}

void record_circuit(Recorder::Circuit circuit, bool failed) {
  circuit.host_call.end = profile_clock();
  circuit.host_call.failed = failed;
  record(circuit.call_site, circuit.host_call);
}

}  // namespace

void Profile::start() { recorder->open(this); }

void Profile::stop() { recorder->close(this); }

std::vector<Profile::Row> Profile::rows() const { return recorder->read(rows_); }

std::vector<HostCall> Profile::host_calls() const {
  return recorder->read(host_calls_);
}

int64_t profile_clock() {
  return std::chrono::steady_clock::now().time_since_epoch() /
         std::chrono::nanoseconds{1};
}

int32_t profile_thread() {
  static std::atomic<int32_t> threads = 0;
  thread_local const int32_t mine = ++threads;
  return mine;
}

void record(const CallSite& site, HostCall host_call) {
  host_call.thread = host_call.thread == 0 ? profile_thread() : host_call.thread;
  recorder->record(site, host_call);
}

namespace {

// The timer of the innermost timed call of this thread.
thread_local CallTimer* innermost = nullptr;

}  // namespace

void CallTimer::add_bytes(int64_t out, int64_t in) {
  if (innermost == nullptr) return;
  innermost->bytes_out_ += out;
  innermost->bytes_in_ += in;
}

void CallTimer::begin() {
  outer_ = std::exchange(innermost, this);
  waited_ = bytes_out_ = bytes_in_ = 0;
  site_ = nullptr;
  part_ = Part::kCall;
  failed_ = false;
  begin_ = profile_clock();
}

void CallTimer::store_description(Part part, const CallSite& site,
                                  std::span<const BufferView> arguments,
                                  std::span<const BufferView> results) {
  part_ = part;
  site_ = &site;
  bytes_out_ = sum_bytes(arguments);
  bytes_in_ = sum_bytes(results);
}

void CallTimer::finish() {
  innermost = outer_;
  if (site_ == nullptr) return;
  HostCall host_call;
  host_call.begin = begin_;
  host_call.end = profile_clock();
  host_call.busy = host_call.end - begin_;
  host_call.waited = waited_;
  host_call.bytes_out = bytes_out_;
  host_call.bytes_in = bytes_in_;
  host_call.failed = failed_;
  CallSite site = *site_;
  site.kind += kSuffixes[static_cast<size_t>(part_)];
  record(site, host_call);
}

namespace {

// Returns the site of a circuit. `derivative` names the attribute that is nonzero if
// the circuit is differentiated.
CallSite make_circuit_site(const XLA_FFI_Attrs& attributes, const char* derivative) {
  const bool records = find_integer(attributes, derivative) != 0;
  return {records ? "circuit, derivative" : "circuit", find_string(attributes, "name"),
          "", find_string(attributes, "site")};
}

// Returns the number of circuits: 1, or the rows of a batch.
int32_t count_circuits(const XLA_FFI_Attrs& attributes) {
  const int64_t rows = find_integer(attributes, "rows");
  return rows == 0 ? 1 : static_cast<int32_t>(rows);
}

// Calls a handler that runs a whole circuit, and records the circuit.
XLA_FFI_Error* profile_whole_circuit(XLA_FFI_CallFrame* frame,
                                     XLA_FFI_Handler* handler) {
  Recorder::Circuit circuit{make_circuit_site(frame->attrs, "jacobian"), {}};
  HostCall& host_call = circuit.host_call;
  host_call.begin = profile_clock();
  host_call.thread = profile_thread();
  host_call.calls = count_circuits(frame->attrs);
  host_call.bytes_out = sum_bytes_from(frame->args.args, 0, frame->args.size);
  host_call.bytes_in = sum_bytes_from(frame->rets.rets, 0, frame->rets.size);
  const uint32_t session_index = whole_circuit_of_thread();
  recorder->put(session_index, circuit);
  XLA_FFI_Error* error = handler(frame);
  host_call.busy = profile_clock() - host_call.begin;
  const int64_t busy = host_call.busy;
  // The handler may have changed the kind, to name the engine.
  recorder->take(session_index, circuit);
  circuit.host_call.busy = busy;
  record_circuit(std::move(circuit), error != nullptr);
  return error;
}

}  // namespace

// Profiles a call of a circuit handler. Threading: as the handler. Ownership: keeps
// only numbers and names.
XLA_FFI_Error* profile_step(XLA_FFI_CallFrame* frame, XLA_FFI_Handler* handler,
                            CircuitStep step) {
  if (step == CircuitStep::kWhole) return profile_whole_circuit(frame, handler);
  HostCall host_call;
  host_call.begin = profile_clock();
  host_call.thread = profile_thread();
  Recorder::Circuit circuit;
  bool is_known = false;
  if (step == CircuitStep::kEnd) {
    is_known =
        recorder->take(read_session_index(buffer_at(frame->args.args, 0)), circuit);
  }
  XLA_FFI_Error* error = handler(frame);
  host_call.busy = profile_clock() - host_call.begin;
  host_call.bytes_out = sum_bytes_from(frame->args.args, 1, frame->args.size);
  host_call.bytes_in = sum_bytes_from(frame->rets.rets, 1, frame->rets.size);
  switch (step) {
    case CircuitStep::kBegin:
      if (error == nullptr) {
        // The operands are anchors, which only order the calls.
        host_call.bytes_out = 0;
        host_call.calls = count_circuits(frame->attrs);
        recorder->put(read_session_index(buffer_at(frame->rets.rets, 0)),
                      {make_circuit_site(frame->attrs, "record"), host_call});
      }
      break;
    case CircuitStep::kOperation:
      recorder->add(read_session_index(buffer_at(frame->args.args, 0)), host_call);
      break;
    case CircuitStep::kEnd:
      if (is_known) {
        circuit.host_call.busy += host_call.busy;
        record_circuit(std::move(circuit), error != nullptr);
      }
      break;
    case CircuitStep::kWhole:
      break;
  }
  return error;
}

void profile_engine(uint32_t session_index) {
  if (is_profiled()) recorder->mark_engine(session_index);
}

void profile_failed_circuit(uint32_t session_index) {
  Recorder::Circuit circuit;
  if (is_profiled() && recorder->take(session_index, circuit)) {
    record_circuit(std::move(circuit), /*failed=*/true);
  }
}

void forget_profiles() {
  recorder = new Recorder;
  open_profiles.store(0);
}

}  // namespace bellhop
