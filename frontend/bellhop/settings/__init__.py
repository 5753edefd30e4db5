"""Settings of the process, and of the code that XLA generates."""
