// derivatives/jacobian.cc: derivatives of the recorded part of a circuit.
#include "derivatives/jacobian.h"

#include <algorithm>

namespace bellhop {
namespace {

void check(const Session& session, std::size_t expvals, std::size_t parameters) {
  const Tape& tape = session.tape;
  if (!session.record) {
    throw CircuitError("it was not begun with record = 2.");
  }
  if (tape.is_behind) {
    throw CircuitError(
        "it applies gates after it measured a variance, which ends the plugin's "
        "record. "
        "Measure variances last.");
  }
  if (expvals != tape.expvals) {
    throw CircuitError("expected a Jacobian with " + std::to_string(expvals) +
                       " rows, and " + std::to_string(tape.expvals) +
                       " expectation values were measured.");
  }
  if (tape.last_parameter >= static_cast<std::int64_t>(parameters)) {
    throw CircuitError("expected a Jacobian with " + std::to_string(parameters) +
                       " columns, and a gate used differentiable parameter " +
                       std::to_string(tape.last_parameter) + ".");
  }
  if (!tape.obstacle.empty()) {
    throw CircuitError("gate '" + tape.obstacle +
                       "' takes a differentiable parameter, and the adjoint method "
                       "cannot differentiate that gate. Decompose it, or use finite "
                       "differences or parameter shift.");
  }
}

}  // namespace

void adjoint_jacobian(Session& session, std::span<double> jacobian, std::size_t expvals,
                      std::size_t parameters) {
  const auto describe = [&]() -> std::string {
    const std::string& suspect = session.tape.many_parameters;
    return "The derivative of a circuit" +
           (suspect.empty() ? ""
                            : " (in which gate '" + suspect +
                                  "' has more than the one parameter that the adjoint "
                                  "method can do)");
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
    // To the plugin, no trainable parameters means all of them.
    if (trainable.empty() || expvals == 0) return;

    // The plugin keeps the state once more, and with each observable applied.
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
