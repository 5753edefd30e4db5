"""Circuits without a plugin: ``default.qubit`` traced into the program, ``null.qubit`` left out."""
