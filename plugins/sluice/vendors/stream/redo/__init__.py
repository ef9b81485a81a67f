"""The output of OpenLogReplicator, one folder a redo thread, merged into a recorded stream (docs/redo.md)."""
