"""What Sluice keeps on a PostgreSQL slave (`sluice.database.control.ControlTables`)."""

from sluice.vendors.postgres.target.blocks import BlockStore
from sluice.vendors.postgres.target.blocks import load as block_map
from sluice.vendors.postgres.target.checkpoint import CheckpointStore
from sluice.vendors.postgres.target.rejects import RejectStore, key_texts
from sluice.vendors.postgres.target.throttle import ThrottleStore

__all__ = ["BlockStore", "CheckpointStore", "RejectStore", "ThrottleStore", "block_map", "key_texts"]
