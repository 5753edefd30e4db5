"""The primitives that circuits are made of while they are traced."""
