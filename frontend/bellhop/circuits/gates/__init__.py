"""Check, decompose and encode PennyLane operations as gates of a circuit."""
