"""The same programs under Bellhop, plain JAX and PennyLane Catalyst, timed in one run."""
