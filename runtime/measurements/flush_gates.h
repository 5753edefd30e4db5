// measurements/flush_gates.h: the end of a circuit's waiting.
#pragma once

#include "circuit/session.h"

namespace bellhop {

// Applies what waits, if it is no batch, and from here on gates as they come.
void apply_waiting(Session& session);

}  // namespace bellhop
