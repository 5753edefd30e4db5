// profile/profile.cc: recording what crosses the border.
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

// Equal for crossings of one place.
std::string make_key(const CallSite& place) {
  return place.number != 0 ? place.kind + std::to_string(place.number)
                           : place.kind + '\n' + place.name + '\n' + place.definition;
}

}  // namespace

// Gives crossings to all open profiles.
class Recorder {
 public:
  void open(Profile* profile) {
    std::lock_guard lock(mutex_);
    profile->began_ = profile_clock();
    profiles_.push_back(profile);
    // Circuits that were begun before are nobody's.
    if (profiles_.size() == 1) circuits_.clear();
    open_profiles.store(static_cast<int>(profiles_.size()));
  }

  void close(Profile* profile) {
    std::lock_guard lock(mutex_);
    std::erase(profiles_, profile);
    open_profiles.store(static_cast<int>(profiles_.size()));
  }

  void record(const CallSite& place, HostCall host_call) {
    const std::string key = make_key(place);
    std::lock_guard lock(mutex_);
    for (Profile* profile : profiles_) {
      if (host_call.begin < profile->began_) continue;
      const auto [found, is_new] =
          profile->by_key_.try_emplace(key, profile->rows_.size());
      if (is_new) profile->rows_.push_back({place});
      host_call.place = found->second;
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

  template <typename T>
  T read(const T& part) {
    std::lock_guard lock(mutex_);
    return part;
  }

  struct Circuit {
    CallSite place;
    HostCall host_call;
  };

  void put(uint32_t place, Circuit circuit) {
    std::lock_guard lock(mutex_);
    circuits_[place] = std::move(circuit);
  }

  void add(uint32_t place, const HostCall& step) {
    std::lock_guard lock(mutex_);
    const auto found = circuits_.find(place);
    if (found == circuits_.end()) return;
    HostCall& host_call = found->second.host_call;
    host_call.busy += step.busy;
    host_call.bytes_out += step.bytes_out;
    host_call.bytes_in += step.bytes_in;
  }

  void mark_engine(uint32_t place) {
    std::lock_guard lock(mutex_);
    const auto found = circuits_.find(place);
    if (found == circuits_.end()) return;
    std::string& kind = found->second.place.kind;
    if (!kind.ends_with(kEngine)) kind += kEngine;
  }

  // False where it was begun before all profiles.
  bool take(uint32_t place, Circuit& circuit) {
    std::lock_guard lock(mutex_);
    const auto found = circuits_.find(place);
    if (found == circuits_.end()) return false;
    circuit = std::move(found->second);
    circuits_.erase(found);
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<Profile*> profiles_;
  // Those under way, by the place of their session.
  std::unordered_map<uint32_t, Circuit> circuits_;
};

namespace {

// Never destroyed: programs may outlive everything. Replaced in the child of a fork.
Recorder* recorder = new Recorder;

constexpr const char* kSuffixes[] = {"", " start", " wait", "", " call"};

int64_t sum_bytes(std::span<const BufferView> buffers) {
  int64_t bytes = 0;
  for (const BufferView& buffer : buffers) bytes += memory_bytes(buffer);
  return bytes;
}

const XLA_FFI_Buffer& buffer_at(void** buffers, int64_t index) {
  return *static_cast<const XLA_FFI_Buffer*>(buffers[index]);
}

// All but the handle of the circuit, which comes first.
int64_t sum_bytes_from(void** buffers, int64_t first, int64_t size) {
  int64_t bytes = 0;
  for (int64_t i = first; i < size; ++i) {
    const XLA_FFI_Buffer& buffer = buffer_at(buffers, i);
    bytes += memory_bytes({buffer.dtype, buffer.dims, buffer.rank, buffer.data, true});
  }
  return bytes;
}

uint32_t read_session_index(const XLA_FFI_Buffer& handle) {
  return *static_cast<const uint32_t*>(handle.data);
}

const void* find_attribute(const XLA_FFI_Attrs& attributes, std::string_view name) {
  for (int64_t i = 0; i < attributes.size; ++i) {
    const XLA_FFI_ByteSpan& found = *attributes.names[i];
    if (std::string_view(found.ptr, found.len) == name) return attributes.attrs[i];
  }
  return nullptr;
}

std::string find_string(const XLA_FFI_Attrs& attributes, std::string_view name) {
  const auto* span =
      static_cast<const XLA_FFI_ByteSpan*>(find_attribute(attributes, name));
  return span == nullptr ? std::string() : std::string(span->ptr, span->len);
}

int64_t find_integer(const XLA_FFI_Attrs& attributes, std::string_view name) {
  const auto* scalar =
      static_cast<const XLA_FFI_Scalar*>(find_attribute(attributes, name));
  return scalar == nullptr ? 0 : *static_cast<const int64_t*>(scalar->value);
}

void record_circuit(Recorder::Circuit circuit, bool failed) {
  circuit.host_call.end = profile_clock();
  circuit.host_call.failed = failed;
  record(circuit.place, circuit.host_call);
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

void record(const CallSite& place, HostCall host_call) {
  host_call.thread = host_call.thread == 0 ? profile_thread() : host_call.thread;
  recorder->record(place, host_call);
}

namespace {

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
  place_ = nullptr;
  part_ = Part::kCall;
  failed_ = false;
  begin_ = profile_clock();
}

void CallTimer::store_description(Part part, const CallSite& place,
                                  std::span<const BufferView> arguments,
                                  std::span<const BufferView> results) {
  part_ = part;
  place_ = &place;
  bytes_out_ = sum_bytes(arguments);
  bytes_in_ = sum_bytes(results);
}

void CallTimer::finish() {
  innermost = outer_;
  if (place_ == nullptr) return;
  HostCall host_call;
  host_call.begin = begin_;
  host_call.end = profile_clock();
  host_call.busy = host_call.end - begin_;
  host_call.waited = waited_;
  host_call.bytes_out = bytes_out_;
  host_call.bytes_in = bytes_in_;
  host_call.failed = failed_;
  CallSite place = *place_;
  place.kind += kSuffixes[static_cast<size_t>(part_)];
  record(place, host_call);
}

namespace {

CallSite make_circuit_site(const XLA_FFI_Attrs& attributes, const char* derivative) {
  const bool records = find_integer(attributes, derivative) != 0;
  return {records ? "circuit, derivative" : "circuit", find_string(attributes, "name"),
          "", find_string(attributes, "site")};
}

int32_t count_circuits(const XLA_FFI_Attrs& attributes) {
  const int64_t rows = find_integer(attributes, "rows");
  return rows == 0 ? 1 : static_cast<int32_t>(rows);
}

XLA_FFI_Error* profile_whole_circuit(XLA_FFI_CallFrame* frame,
                                     XLA_FFI_Handler* handler) {
  Recorder::Circuit circuit{make_circuit_site(frame->attrs, "jacobian"), {}};
  HostCall& host_call = circuit.host_call;
  host_call.begin = profile_clock();
  host_call.thread = profile_thread();
  host_call.calls = count_circuits(frame->attrs);
  host_call.bytes_out = sum_bytes_from(frame->args.args, 0, frame->args.size);
  host_call.bytes_in = sum_bytes_from(frame->rets.rets, 0, frame->rets.size);
  const uint32_t place = whole_circuit_of_thread();
  recorder->put(place, circuit);
  XLA_FFI_Error* error = handler(frame);
  host_call.busy = profile_clock() - host_call.begin;
  const int64_t busy = host_call.busy;
  // It may know more of it: that the engine ran it.
  recorder->take(place, circuit);
  circuit.host_call.busy = busy;
  record_circuit(std::move(circuit), error != nullptr);
  return error;
}

}  // namespace

// Threading: that of the handler. Ownership: nothing is kept but numbers and names.
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
        // Its operands are anchors.
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

void profile_engine(uint32_t place) {
  if (is_profiled()) recorder->mark_engine(place);
}

void profile_failed_circuit(uint32_t place) {
  Recorder::Circuit circuit;
  if (is_profiled() && recorder->take(place, circuit)) {
    record_circuit(std::move(circuit), /*failed=*/true);
  }
}

void forget_profiles() {
  recorder = new Recorder;
  open_profiles.store(0);
}

}  // namespace bellhop
