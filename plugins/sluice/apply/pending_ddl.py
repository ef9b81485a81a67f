"""Changes of definitions on a slave whose DDL commits by itself, as that of most vendors does.

There a change of a definition cannot share a transaction with rows and the checkpoint. So each is done alone, in steps
that may end after any of them:

1. what comes before it is committed as a slice, with a checkpoint that ends just before it: it is pending;
2. it is done, in its own transaction. A second time that does nothing (`Alterer.apply`);
3. the checkpoint that ends with it is committed, with what it changes in rows: labels of enums that are texts there.

Whatever ends the apply after the first step, the next one begins with the second. Until the third the slave is catching
up: it shows no state of the master.
"""

from sluice.model.window import Window


def next_part(window: Window, definition: int) -> Window:
    """The part of `window` that is applied next, where its first change of a definition has this REPL_KEY.

    All before it, empty where the change is the first of the window; or the change alone once that is committed.
    """
    pending = window.above == definition - 1
    return window.between(window.above, definition if pending else definition - 1)
