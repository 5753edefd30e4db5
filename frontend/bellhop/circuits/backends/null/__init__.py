"""The backend of `null.qubit`: circuits are traced and checked, and not computed."""
