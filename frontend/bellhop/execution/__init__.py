"""How the program of a qjit function gets to run."""
