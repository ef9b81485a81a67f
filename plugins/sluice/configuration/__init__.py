"""Reads replication files. Other packages use `sluice.config`.

Each format has a reader (in `sources` and `properties_file`) that turns its text into the same tree of nodes,
each with its file, line and key. `build` turns the tree into the `model`: each key is a field of a class of `Options`
(`section`), with its default and its allowed values (`values`). All mistakes of a file are collected in `mistakes` and
reported together.
"""
