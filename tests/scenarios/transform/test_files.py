"""Files contain only the slave's rows and columns, and give the same as an online load."""

import gzip
from pathlib import Path

import pytest

from sluice.load import steps
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.importer import import_in_threads
from sluice.model.location import S3Access
from tests.scenarios.initial_files.carrying import export, exported, location, moved, prepare
from tests.scenarios.transform.conftest import MakeShop
from tests.scenarios.transform.people import PEOPLE, TABLES, Writers, assert_transformed


@pytest.mark.long
def test_files_hold_what_the_slave_gets_and_nothing_else(shop: MakeShop, tmp_path: Path) -> None:
    here = shop(PEOPLE, TABLES, block_rows=60)
    update = here.update()
    moving = ["UPDATE public.people SET country = CASE country WHEN 'CH' THEN 'DE' ELSE 'CH' END WHERE id % 5 = 0"]
    prepare(here, update)
    with here.apply(), Writers(here, moving):
        carried = transfer_steps.folder_of(update, location(tmp_path / "out"), S3Access(), None)
        export(update, carried)
        manifest = transfer_steps.seal(update, carried)
        texts = [path.read_bytes() for path in Path(carried.location.path).iterdir()]
        whole = b"".join(gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text for text in texts)
        assert b"full name" in whole and b"hunter" not in whole and b"mail" not in whole
        there = moved(carried, tmp_path / "in")
        assert transfer_steps.examine(update, there) == manifest
        steps.open_gate(update, here.store)
        import_in_threads(update, there, manifest, 2)
        here.await_normal()
    with here.apply():
        here.await_current()
    assert_transformed(here)


@pytest.mark.long
def test_files_of_one_slave_are_not_for_another_that_gets_other_rows(
    shop: MakeShop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here = shop(PEOPLE, TABLES)
    update = here.update()
    exported(here, update, location(tmp_path / "out"))
    other = here.with_options(tables=()).update(update.update_id)
    assert transfer_steps.adopted_by(update, [other], here.blocks()) == []
    assert "`where`, `columns` or `exit` of public.people are not those of the slave" in caplog.text
