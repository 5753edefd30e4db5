"""Observers: callbacks and checks that show values of a running program and return none."""
