"""Programs of JAX's that are partitioned over devices, and our calls in them."""
