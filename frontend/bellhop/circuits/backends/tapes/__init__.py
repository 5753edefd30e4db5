"""The backend for devices that are Python objects: the program calls them with tapes."""
