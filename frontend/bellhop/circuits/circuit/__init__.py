"""The primitive that a whole circuit is: alone, in a batch, and through its outcomes."""
