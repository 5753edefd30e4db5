"""From a traced function to an executable: lowering, passes, regions, and programs in JAX's own."""
