"""Whether an ability of Bellhop can be deleted: its files, and its name in a registry."""
