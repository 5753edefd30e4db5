"""Mid-circuit outcomes of compiled circuits: deferred, drawn for each shot, or shared."""
