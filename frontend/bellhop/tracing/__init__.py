"""How a user's function is traced: the state of that, and the options."""
