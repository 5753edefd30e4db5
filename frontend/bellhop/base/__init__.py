"""Source locations, types, devices, signatures, jaxprs: helpers of all packages."""
