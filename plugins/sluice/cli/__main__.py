"""`python -m sluice.cli`: what `./sluice` is on a machine without the devstack."""

import sys

from sluice.cli.command import main

sys.exit(main())
