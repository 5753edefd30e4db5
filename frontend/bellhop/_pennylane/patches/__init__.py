"""Replaced parts of PennyLane, a file each; see ``_patching``."""
