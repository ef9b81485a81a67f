"""Changes of definitions on a slave whose DDL commits by itself, as that of most vendors does.

There a change of a definition cannot share a transaction with rows and the checkpoint. So it is done alone, in three
steps; the apply may be killed after any of them:

1. the changes before it are committed as a slice, with a checkpoint that ends just before it: it is pending;
2. the DDL is executed. `Alterer.apply` does nothing where it was executed before;
3. the checkpoint that ends with it is committed, together with its changes to rows (labels of enums kept as texts).

An apply that starts after step 1 begins with step 2. Until step 3 the slave is catching up: it shows no state of the
master.
"""

from sluice.model.window import Window


def next_part(window: Window, definition: int) -> Window:
    """The part of `window` to apply next; `definition`: the REPL_KEY of its first change of a definition.

    That is all before the change (possibly nothing), or the change alone once that is committed.
    """
    pending = window.above == definition - 1
    return window.between(window.above, definition if pending else definition - 1)
