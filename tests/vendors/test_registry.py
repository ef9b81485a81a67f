"""Every registered vendor passes the contract; Oracle does if the environment names a server."""

from sluice.model.vendors import VENDORS
from tests.vendors.servers import SERVERS, TARGET


def test_every_vendor_that_is_registered_keeps_the_contract() -> None:
    assert {name for name, server in SERVERS.items() if not server.oracle} == set(VENDORS) - {"oracle"}
    assert all(TARGET in server.offers for server in SERVERS.values()), "each vendor can be a slave"
