"""Calls of QNodes in our programs."""
