"""Execute circuits on Python devices: a callback of the program passes tapes to the device."""
