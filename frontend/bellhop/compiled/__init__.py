"""Compiled functions: what ``qjit`` returns."""
