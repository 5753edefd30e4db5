"""Profiles of host calls: counts and times."""
