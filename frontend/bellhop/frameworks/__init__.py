"""Interoperability with other frameworks: PyTorch."""
