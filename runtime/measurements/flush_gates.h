// measurements/flush_gates.h: apply the stored gates of a circuit on its device.
#pragma once

#include "circuit/session.h"

namespace bellhop {

// Applies the stored steps of a single circuit on its device; further gates are applied
// at once. Does nothing for a batch, or if no gates are stored.
void apply_waiting(Session& session);

}  // namespace bellhop
