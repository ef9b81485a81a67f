"""A recorded stream of changes in files as a source (docs/stream.md)."""
