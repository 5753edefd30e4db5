"""Observers: callbacks without results that show or check values of a running program."""
