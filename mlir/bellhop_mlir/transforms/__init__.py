"""The passes, one in each file: ``order_effects.py`` has the pass ``order-effects``."""
