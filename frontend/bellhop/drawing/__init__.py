"""Diagrams of hybrid programs."""
