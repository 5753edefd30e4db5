"""A circuit while its quantum function is traced."""
