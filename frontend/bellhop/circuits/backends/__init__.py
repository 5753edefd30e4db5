"""What runs circuits: a package for each backend, and `choose`, which picks one for a device."""
