"""No vendor without the contract."""

from sluice.model.vendors import VENDORS
from tests.vendors.servers import SERVERS, TARGET


def test_every_vendor_that_is_registered_keeps_the_contract() -> None:
    assert set(SERVERS) == set(VENDORS)
    assert all(TARGET in server.offers for server in SERVERS.values()), "each vendor can be a slave"
