// derivatives/jacobian.cc: adjoint derivatives from a plugin's recording of a circuit.
#include "derivatives/jacobian.h"

#include <algorithm>

namespace bellhop {
namespace {

// Throws CircuitError unless the recorded circuit has this Jacobian.
void check(const Session& session, std::size_t expvals, std::size_t parameters) {
  const Tape& tape = session.tape;
  if (!session.record) {
    throw CircuitError(
        "internal error: the circuit was started without recording on the device "
        "(record=2). Please report this as a bug in Bellhop.");
  }
  if (tape.is_behind) {
    throw CircuitError(
        "gates after the measurement of a variance are not supported by the adjoint "
        "method of this device: a variance ends the device's recording. Measure "
        "variances last.");
  }
  if (expvals != tape.expvals) {
    throw CircuitError("Jacobian: expected " + std::to_string(tape.expvals) +
                       " rows, one for each expectation value, got " +
                       std::to_string(expvals) + "." + kDamaged);
  }
  if (tape.last_parameter >= static_cast<std::int64_t>(parameters)) {
    throw CircuitError(
        "Jacobian: expected more than " + std::to_string(tape.last_parameter) +
        " columns, since a gate uses the differentiable parameter with index " +
        std::to_string(tape.last_parameter) + ", got " + std::to_string(parameters) +
        "." + kDamaged);
  }
  if (!tape.obstacle.empty()) {
    throw CircuitError("gate '" + tape.obstacle +
                       "' has a differentiable parameter, which the adjoint method "
                       "does not support for this gate. Decompose the gate, or use "
                       "diff_method='finite-diff' or 'parameter-shift'.");
  }
}

}  // namespace

void adjoint_jacobian(Session& session, std::span<double> jacobian, std::size_t expvals,
                      std::size_t parameters) {
  const auto describe = [&]() -> std::string {
    const std::string& suspect = session.tape.many_parameters;
    return "adjoint derivative of the circuit" +
           (suspect.empty() ? ""
                            : " (in which gate '" + suspect +
                                  "' has several parameters, which the adjoint method "
                                  "does not support)");
  };
  session.attempt(describe, [&] {
    check(session, expvals, parameters);
    std::ranges::fill(jacobian, 0.0);
    session.dynamic_count.begin(expvals, session.tape.dynamic_count);

    const std::vector<std::int64_t>& used = session.tape.parameters;
    std::vector<std::size_t> trainable;
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i] >= 0) trainable.push_back(i);
    }
    // The plugin takes an empty list of trainable parameters for all parameters.
    if (trainable.empty() || expvals == 0) return;

    // The plugin stores a copy of the state, and one for each observable.
    session.device->pool.expect_memory(Memory::kFree, {session.qubits, 1 + expvals});
    std::vector<double> rows(expvals * trainable.size());
    std::vector<DataView<double, 1>> views;
    views.reserve(expvals);
    for (std::size_t row = 0; row < expvals; ++row) {
      views.push_back(view_of(&rows[row * trainable.size()], trainable.size()));
    }
    session.device->plugin->Gradient(views, trainable);

    for (std::size_t row = 0; row < expvals; ++row) {
      for (std::size_t i = 0; i < trainable.size(); ++i) {
        const double derivative = rows[row * trainable.size() + i];
        const std::int64_t number = used[trainable[i]];
        if (is_dynamic_count(number)) {
          session.dynamic_count.add(row, number, derivative);
        } else {
          jacobian[row * parameters + static_cast<std::size_t>(number)] += derivative;
        }
      }
    }
  });
}

}  // namespace bellhop
