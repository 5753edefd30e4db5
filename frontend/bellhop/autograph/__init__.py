"""Python control flow as part of compiled programs, on the machinery of diastatic-malt."""
