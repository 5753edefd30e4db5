"""Conversion of Python control flow to compiled control flow, by diastatic-malt."""
