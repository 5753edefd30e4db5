"""Progress bars of loops: counting in programs, and display."""
