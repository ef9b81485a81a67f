"""What Sluice keeps on a PostgreSQL slave (`sluice.database.control.ControlTables`)."""

from sluice.vendors.postgres.blocks import BlockStore
from sluice.vendors.postgres.blocks import load as block_map
from sluice.vendors.postgres.checkpoint import CheckpointStore
from sluice.vendors.postgres.rejects import RejectStore, key_texts
from sluice.vendors.postgres.throttle import ThrottleStore

__all__ = ["BlockStore", "CheckpointStore", "RejectStore", "ThrottleStore", "block_map", "key_texts"]
