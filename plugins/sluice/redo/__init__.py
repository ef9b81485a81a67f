"""Runs the programs that read an Oracle master's redo, and fetches logs for them (docs/redo.md)."""
