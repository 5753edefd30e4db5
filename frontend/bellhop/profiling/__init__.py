"""Every crossing of the border of programs, counted and timed."""
