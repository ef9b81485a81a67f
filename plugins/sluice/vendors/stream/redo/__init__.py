"""The output of OpenLogReplicator, with a folder for each redo thread, merged into a recorded stream (docs/redo.md)."""
