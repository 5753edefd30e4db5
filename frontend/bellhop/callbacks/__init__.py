"""Callbacks: Python functions that compiled programs call while they run."""
