"""Front end of circuits: intercepts QNode calls and traces quantum functions."""
