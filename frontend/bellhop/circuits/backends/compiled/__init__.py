"""The backend of the C++ runtime: its engine, and the compiled plugins of devices."""
