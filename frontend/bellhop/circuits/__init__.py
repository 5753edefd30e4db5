"""Circuits: QNodes as part of compiled programs."""
