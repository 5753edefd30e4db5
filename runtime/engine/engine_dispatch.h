// engine/engine_dispatch.h: decide which circuits the engine executes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "circuit/session.h"
#include "measurements/measurement_request.h"

namespace bellhop::engine {

// The most qubits for which the engine replaces a plugin on the CPU. In all
// measurements, up to 20 qubits, lightning.qubit was slower, and lightning.kokkos took
// 5 to 9 times as long for a value and 13 to 34 times for a gradient. The index of a
// sample has 32 bits.
constexpr std::size_t kMostQubits = 32;
// The same for plugins on a GPU; not measured.
constexpr std::size_t kMostQubitsOnGpus = 12;

// Returns whether the gates of a circuit with these attributes are stored until
// something is measured, so that the engine can execute them. The compiler decides that
// in part.
bool suits(const Beginning& beginning);

// Returns the most qubits for which the engine replaces a plugin; the compiler calls
// this.
std::size_t most_qubits(const DevicePool& pool);

// Returns whether the latest gates of a session may be stored with those before them.
// The engine must be able to apply them and, if derivatives are recorded, to
// differentiate them. The gates of a batch are always stored; whether the engine
// supports them is checked when the batch is measured.
bool may_wait(const Session& session);

// Returns whether some gates of a step go through the whole state (`is_large`). Such a
// step cannot be applied to several rows of a batch at a time.
bool has_large_operations(const Session& session, const Step& step);

// Returns whether the engine can measure this wire before the end of a circuit.
bool may_measure(const Session& session, std::int32_t wire);

// Returns whether the engine can apply the stored gates.
bool runs_gates(const Session& session);

// Returns whether the engine applies the stored gates and measures them, with
// derivatives unless `jacobians` is null: whether it supports them and is faster than
// the plugin.
bool runs(const Session& session, const Measuring& measuring,
          const Jacobians* jacobians);

// Returns whether the engine executes the stored steps `times` times, with other values
// of the `parameters` static-count parameters.
bool runs_again(const Session& session, std::size_t parameters,
                const Measuring& measuring, const Jacobians* jacobians,
                std::size_t times);

// Returns whether the engine supports `score` with this number of static-count
// parameters.
bool may_score(const Session& session, std::size_t parameters);

}  // namespace bellhop::engine
