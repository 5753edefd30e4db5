"""Circuits whose state is partitioned over the devices of a mesh."""
