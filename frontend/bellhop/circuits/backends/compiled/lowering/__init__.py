"""Trace a call of a QNode for the runtime and bind the circuit."""
