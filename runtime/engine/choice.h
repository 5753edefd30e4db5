// engine/choice.h: which circuits the engine runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "circuit/session.h"
#include "gates/gate_table.h"
#include "measurements/measuring.h"

namespace bellhop::engine {

// Measured up to here: value and gradient of 32 rows of 12 qubits take 9.6 ms, and 57
// by Lightning (two cores, AVX2). Of larger ones the two states of a group do not fit
// the second cache.
constexpr std::size_t kMostQubits = 12;

// Whether gates of a single circuit that begins like this may wait for the engine: size
// and device are such that it is faster.
bool suits(const Beginning& beginning);

// Whether these gates may wait with those of the session that do: the engine applies
// them, and knows their derivatives if they are asked for. Of a batch that is found out
// when it is measured.
bool may_wait(const Session& session, const GateTable& gates, std::int32_t offset);

// Whether the engine measures this wire in the middle of a session.
bool may_measure(const Session& session, std::int32_t wire);

// Whether the engine runs what waits, with its derivatives if they are asked for:
// gates, measurements, size and device are such that it can, and that it is faster.
bool runs(const Session& session, const Measuring& measuring,
          const Jacobians* jacobians);

// Whether the engine runs what waits again, so many times, with other static-count
// parameters, of which there are so many.
bool runs_again(const Session& session, std::size_t parameters,
                const Measuring& measuring, const Jacobians* jacobians,
                std::size_t times);

// Whether `score` gives the derivative of what was drawn by so many parameters.
bool may_score(const Session& session, std::size_t parameters);

}  // namespace bellhop::engine
