"""Data types that all packages of `circuits` share."""
