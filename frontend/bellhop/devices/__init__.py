"""Devices: what a `dev` argument names, and how much memory a device has."""
