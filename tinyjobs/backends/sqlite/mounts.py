"""The kernel's table of mounts, as far as a database file asks of it: on which file system it is, and of what kind.

Pure: it is given the text of `/proc/self/mountinfo` and what `stat` said. Names are kept as the paths carry them, so
bytes that are no text come out as `os.fsdecode` has them.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

_OCTAL = re.compile(rb"\\([0-7]{3})")


class Kind(Enum):
    """What a file system means for a file of jobs."""

    LOCAL = "local"
    NETWORK = "network"
    VOLATILE = "volatile"
    CONTAINER = "container"


_NETWORK = (
    "nfs nfs4 cifs smb3 smbfs 9p ceph glusterfs lustre gpfs beegfs afs orangefs davfs davfs2 vboxsf "
    "fuse.ceph fuse.ceph-fuse fuse.glusterfs fuse.davfs fuse.davfs2 fuse.webdavfs fuse.sshfs fuse.s3fs fuse.s3backer "
    "fuse.gcsfuse fuse.goofys fuse.geesefs fuse.rclone fuse.blobfuse fuse.blobfuse2 fuse.mountpoint-s3 fuse.ossfs "
    "fuse.cosfs fuse.obsfs fuse.juicefs fuse.seaweedfs fuse.mfs fuse.vmhgfs-fuse"
)
_KINDS = {
    Kind.NETWORK: _NETWORK,
    Kind.VOLATILE: "tmpfs ramfs",
    Kind.CONTAINER: "overlay overlayfs fuse-overlayfs fuse.fuse-overlayfs aufs",
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names.split()}
# Some mount object stores and WebDAV as plain "fuse", and are known by what they say they mount. Whatever mounts a URL
# is one of them, also under a name that is none of the above.
_FUSE_SOURCES = ("s3fs", "goofys", "mountpoint-s3", "blobfuse", "blobfuse2", "gcsfuse", "rclone", "JuiceFS:", "davfs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One line of the table. `device` is major:minor, as in `st_dev`."""

    point: str
    device: tuple[int, int]
    kind_name: str
    source: str

    @property
    def kind(self) -> Kind:
        """What it means for a file of jobs."""
        if self.kind_name.partition(".")[0] == "fuse" and "://" in self.source:
            return Kind.NETWORK
        if self.kind_name == "fuse" and any(self.source.startswith(name) for name in _FUSE_SOURCES):
            return Kind.NETWORK
        return _KIND_OF.get(self.kind_name, Kind.LOCAL)

    def contains(self, path: str) -> bool:
        """Whether the path is at this point or below it."""
        return self.point in ("/", path) or path.startswith(f"{self.point}/")


def read_mounts(table: bytes) -> list[Mount]:
    """The mounts of a table, in its order. Lines that cannot be read are left out."""
    mounts = []
    for line in table.split(b"\n"):
        mount = _read(line)
        if mount is not None:
            mounts.append(mount)
    return mounts


def mount_of(path: str, device: tuple[int, int], mounts: Sequence[Mount]) -> Mount | None:
    """The mount that a file is on, by its real path and its device; None where the table does not tell.

    A mount that is hidden under another one still stands in the table, so those on the file's own device count alone.
    Where no mount has that device, as on a subvolume of btrfs, the path has to do.
    """
    same = [mount for mount in mounts if mount.device == device]
    containing = [mount for mount in same or mounts if mount.contains(path)]
    # Of two at one point, the later one covers the other.
    return max(enumerate(containing), key=lambda entry: (len(entry[1].point), entry[0]))[1] if containing else None


def _read(line: bytes) -> Mount | None:
    before, dash, after = line.partition(b" - ")
    fields, kind = before.split(b" "), after.split(b" ")
    if not dash or len(fields) < 6 or len(kind) < 2:
        return None
    major, colon, minor = fields[2].partition(b":")
    if not colon or not (major.isdigit() and minor.isdigit()):
        return None
    return Mount(
        point=_decoded(fields[4]),
        device=(int(major), int(minor)),
        kind_name=_decoded(kind[0]),
        source=_decoded(kind[1]),
    )


def _decoded(field: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8) & 0xFF]), field))
