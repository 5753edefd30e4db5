"""The backend for Clifford circuits with shots, which Stim samples."""
