"""What loops tell of how far they are, and the bars that show it."""
