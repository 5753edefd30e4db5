"""What of PennyLane is replaced."""
