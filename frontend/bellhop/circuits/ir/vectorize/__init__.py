"""Vectorization of jaxprs: scalars computed by equal equations become one vector."""
