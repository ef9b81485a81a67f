"""`./sluice rehearse`: a migration is tried on a captured copy before it touches the master.

script     divides a script into statements                    arguments  the options
psql       runs them, by psql itself                           servers    throw-away servers, whatever happens
watch      locks that a script holds                           replica    a replication between them
compare    what psql printed with capture and without          course     runs it all, makes the report
report     findings; on the terminal, as JSON, as a page       definitions  makes the databases
"""

import argparse


def run(args: argparse.Namespace) -> int:
    """Returns the exit status: 0 nothing found, 1 findings, 2 the rehearsal itself failed."""
    from devstack.rehearse import command

    return command.run(args)
