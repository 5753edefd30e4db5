"""The passes, one a file in the folder of its subject; its stem is its name in a pipeline."""
