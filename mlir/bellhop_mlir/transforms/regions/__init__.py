"""Passes over regions, the parts of a program that run on other devices."""
