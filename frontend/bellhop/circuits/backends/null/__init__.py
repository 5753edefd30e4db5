"""The backend of `null.qubit`: circuits are traced and checked, but not simulated."""
