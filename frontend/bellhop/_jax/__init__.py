"""What of JAX is not public: used as it is in ``private``, replaced in ``patches``."""
