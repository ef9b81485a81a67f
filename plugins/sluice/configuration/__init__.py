"""Reading of replication files; `sluice.config` is the face that others use.

Each format has a reader (`yaml_file`, `properties_file`, `xml_file`) that turns its text into the
same tree of nodes, every node knowing its file, line and key. `build` checks the tree and makes
the `model`. Whatever is wrong anywhere is collected in `mistakes` and reported together.
"""
