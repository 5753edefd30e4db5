"""Circuits that are traced into the program, ``default.mixed``'s, or left out, ``null.qubit``'s."""
