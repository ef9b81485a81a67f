"""Exit statuses of a job, with the numbers of sysexits.h."""

DONE = 0
TRANSIENT = 75
"""EX_TEMPFAIL: start the job again."""
TERMINAL = 78
"""EX_CONFIG: a person must act; the last line says what."""
