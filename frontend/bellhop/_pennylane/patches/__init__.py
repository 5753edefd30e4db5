"""Patches of PennyLane, one in each file; see ``_patching``."""
