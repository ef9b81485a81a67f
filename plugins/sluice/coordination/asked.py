"""Which tasks of Airflow have put their question to a person."""

from datetime import timedelta

import redis

from sluice.coordination.redis_store import classified

KEPT = timedelta(days=90)


class Asked:
    """Each method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", task_instance: str):
        self.client = client
        self.key = f"sluice::asked:{task_instance}"

    def note(self) -> None:
        """Records that the question is put."""
        with classified():
            self.client.set(self.key, "1", ex=KEPT)

    def noted(self) -> bool:
        with classified():
            return bool(self.client.exists(self.key))
