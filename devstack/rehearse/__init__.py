"""`./sluice rehearse`: a migration is tried on a captured copy before it touches the master.

arguments  the options                                    command      the whole
servers    throw-away servers, whatever happens           definitions  makes the database, of files or a master
replica    a replication between them                     rows         a sample of a master's, or made-up ones
script     divides a script into statements               psql         runs them, by psql itself
watch      locks that a script holds                      writers      write meanwhile
compare    what psql printed with capture and without     course       runs scripts on both servers
report     findings; on the terminal, as JSON             page         the same as a page
"""

import argparse


def run(args: argparse.Namespace) -> int:
    """Returns the exit status: 0 nothing found, 1 findings, 2 the rehearsal itself failed."""
    from devstack.rehearse import command

    return command.run(args)
