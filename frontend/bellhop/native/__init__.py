"""Native callbacks: C functions and XLA handlers that programs call without Python."""
