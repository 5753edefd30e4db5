// engine/engine_dispatch.h: which circuits the engine runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "circuit/session.h"
#include "measurements/measurement_request.h"

namespace bellhop::engine {

// Of plugins on the CPU, whatever fits: in all that was measured, up to 20 qubits,
// lightning.qubit was slower, and lightning.kokkos took 5 to 9 times as long for a
// value and 13 to 34 for a gradient. An index of a sample has 32 bits.
constexpr std::size_t kMostQubits = 32;
// Of plugins on a GPU; not measured.
constexpr std::size_t kMostQubitsOnGpus = 12;

// Whether the gates of a circuit that begins like this wait for the engine, as the
// compiler has decided.
bool suits(const Beginning& beginning);

// How large the circuits of a plugin are that the engine runs faster, for the compiler.
std::size_t most_qubits(const DevicePool& pool);

// Whether the last gates of a session may wait with those before them. The engine must
// be able to apply them and, if derivatives will be asked for, to differentiate them.
// The gates of a batch always wait; whether the engine can is found out when the batch
// is measured.
bool may_wait(const Session& session);

// Whether gates of a step go through the whole state, and so not through the rows of a
// batch side by side.
bool has_large_operations(const Session& session, const Step& step);

// Whether the engine can measure this wire in the middle of a circuit.
bool may_measure(const Session& session, std::int32_t wire);

// Whether the engine can apply the gates that wait.
bool runs_gates(const Session& session);

// Whether the engine runs the gates that wait and measures them, with derivatives
// unless `jacobians` is null: whether it can, and is faster than the plugin.
bool runs(const Session& session, const Measuring& measuring,
          const Jacobians* jacobians);

// Whether the engine runs the gates that wait `times` times, with other values of the
// static-count parameters, of which there are `parameters`.
bool runs_again(const Session& session, std::size_t parameters,
                const Measuring& measuring, const Jacobians* jacobians,
                std::size_t times);

// Whether `score` gives the derivative of what was drawn by so many parameters.
bool may_score(const Session& session, std::size_t parameters);

}  // namespace bellhop::engine
