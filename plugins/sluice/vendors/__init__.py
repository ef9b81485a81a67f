"""The databases Sluice speaks to, one package a vendor: `sluice.database.registry` finds them by name."""
