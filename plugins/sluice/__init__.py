"""Sluice replicates tables from one master database to many slaves."""

from sluice.log_texts import hide_values

__version__ = "1.0.0"
"""The one place of the version: `./sluice --version` and the build of the package read this line as text."""

hide_values()
