"""Keeps the programs that read an Oracle master's redo running, and brings its logs to them (docs/redo.md)."""
