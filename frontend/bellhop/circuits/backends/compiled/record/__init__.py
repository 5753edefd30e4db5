"""Record a circuit for the runtime: gates, loops and conditionals as equations."""
