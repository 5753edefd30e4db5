"""Programs of JAX's that are spread over devices, and our calls in them."""
