"""PennyLane's own tools, transforms and queues, as circuits need them."""
