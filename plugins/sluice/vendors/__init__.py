"""The supported databases, one package a vendor: `sluice.database.registry` finds them by name."""
