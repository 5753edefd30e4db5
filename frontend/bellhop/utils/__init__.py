"""Names that users of Catalyst know from its ``utils``."""
