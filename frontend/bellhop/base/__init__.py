"""What everything stands on: places in the source, types, devices, signatures, equations."""
