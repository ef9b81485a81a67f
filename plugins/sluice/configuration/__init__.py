"""Reading of replication files; `sluice.config` is the face that others use.

Each format has a reader (`yaml_file`, `properties_file`, `xml_file`) that turns its text into the same tree of nodes,
every node knowing its file, line and key. `build` makes the `model` of it: each key is a field of a class of `Options`
(`section`), with its default and what may stand there (`values`). All mistakes of a file are collected in `mistakes`
and reported together.
"""
