"""Opens a location or a folder, in a directory or in S3. Libraries for S3 are imported only for S3."""

from sluice.model.location import Location, S3Access
from sluice.storage.directory import DirectoryFolder, DirectoryPlace
from sluice.storage.folder import Folder, Place


def open_location(location: Location, access: S3Access) -> Place:
    """Does not access the location yet."""
    if location.bucket is None:
        return DirectoryPlace(location)
    from sluice.storage.bucket import BucketPlace

    return BucketPlace(location, access)


def open_folder(location: Location, access: S3Access) -> Folder:
    """Does not access the location yet."""
    if location.bucket is None:
        return DirectoryFolder(location)
    from sluice.storage.bucket import BucketFolder

    return BucketFolder(location, access)
