"""States that are partitioned over the devices of a mesh."""
