"""On which mount a file is, by tables of mounts as kernels write them."""

import os

import pytest

from tinyjobs.backends.sqlite.mounts import Kind, Mount, mount_of, read_mounts

DISK = "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard"
PATH = "/srv/data/jobs.db"

# One mount at /srv/data for each, as `mountinfo` tells of it.
KINDS = {
    "ext4": ("40 27 8:1 / /srv/data rw,relatime shared:5 - ext4 /dev/sda1 rw", (8, 1), Kind.LOCAL),
    "xfs": ("40 27 253:2 / /srv/data rw,noatime - xfs /dev/mapper/vg-data rw,attr2", (253, 2), Kind.LOCAL),
    "zfs": ("40 27 0:47 / /srv/data rw shared:9 - zfs tank/data rw,xattr", (0, 47), Kind.LOCAL),
    "ntfs by fuse": ("40 27 8:17 / /srv/data rw - fuseblk /dev/sdb1 rw,user_id=0", (8, 17), Kind.LOCAL),
    "a fuse of a local disk": ("40 27 0:60 / /srv/data rw - fuse.mergerfs a:b rw", (0, 60), Kind.LOCAL),
    "nfs3": ("40 27 0:52 / /srv/data rw,relatime - nfs nas:/vol rw,vers=3,hard", (0, 52), Kind.NETWORK),
    "nfs4": ("40 27 0:53 /jobs /srv/data rw shared:3 - nfs4 10.0.0.2:/jobs rw,vers=4.2", (0, 53), Kind.NETWORK),
    "cifs": (r"40 27 0:54 / /srv/data rw - cifs //nas/share\040one rw,vers=3.1.1", (0, 54), Kind.NETWORK),
    "smb3": ("40 27 0:54 / /srv/data rw - smb3 //nas/share rw", (0, 54), Kind.NETWORK),
    "9p, as in WSL": (r"40 27 0:55 / /srv/data rw - 9p C:\134 rw,dirsync,aname=drvfs", (0, 55), Kind.NETWORK),
    "ceph": ("40 27 0:56 / /srv/data rw - ceph 10.1.1.1:6789:/ rw,name=admin", (0, 56), Kind.NETWORK),
    "ceph by fuse": ("40 27 0:56 / /srv/data rw - fuse.ceph-fuse ceph-fuse rw", (0, 56), Kind.NETWORK),
    "gluster": ("40 27 0:57 / /srv/data rw - fuse.glusterfs node1:/vol rw,user_id=0", (0, 57), Kind.NETWORK),
    "lustre": ("40 27 0:58 / /srv/data rw - lustre 10.0.0.1@tcp:/scratch rw", (0, 58), Kind.NETWORK),
    "gpfs": ("40 27 0:59 / /srv/data rw - gpfs gpfs0 rw", (0, 59), Kind.NETWORK),
    "webdav": ("40 27 0:61 / /srv/data rw - fuse https://dav.example.com/ rw", (0, 61), Kind.NETWORK),
    "webdav by name": ("40 27 0:61 / /srv/data rw - davfs https://dav.example.com/ rw", (0, 61), Kind.NETWORK),
    "s3fs": ("40 27 0:62 / /srv/data rw - fuse.s3fs s3fs rw,user_id=0", (0, 62), Kind.NETWORK),
    "gcsfuse": ("40 27 0:62 / /srv/data rw - fuse.gcsfuse bucket rw", (0, 62), Kind.NETWORK),
    "rclone": ("40 27 0:62 / /srv/data rw - fuse.rclone remote:jobs rw", (0, 62), Kind.NETWORK),
    "sshfs": ("40 27 0:62 / /srv/data rw - fuse.sshfs me@host:/srv rw", (0, 62), Kind.NETWORK),
    "mountpoint-s3": ("40 27 0:62 / /srv/data rw - fuse mountpoint-s3 rw", (0, 62), Kind.NETWORK),
    "s3ql": ("40 27 0:62 / /srv/data rw - fuse.s3ql s3://eu-west-1/bucket rw,user_id=0", (0, 62), Kind.NETWORK),
    "webdav by its URL": ("40 27 0:61 / /srv/data rw - fuse.wdfs https://dav.example.com/ rw", (0, 61), Kind.NETWORK),
    "blobfuse2": ("40 27 0:62 / /srv/data rw - fuse blobfuse2 rw", (0, 62), Kind.NETWORK),
    "tmpfs": ("40 27 0:44 / /srv/data rw,nosuid - tmpfs tmpfs rw,size=65536k", (0, 44), Kind.VOLATILE),
    "ramfs": ("40 27 0:45 / /srv/data rw - ramfs ramfs rw", (0, 45), Kind.VOLATILE),
    "overlay": ("40 27 0:46 / /srv/data rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/c", (0, 46), Kind.CONTAINER),
    "fuse-overlayfs": ("40 27 0:48 / /srv/data rw - fuse.fuse-overlayfs fuse-overlayfs rw", (0, 48), Kind.CONTAINER),
    "aufs": ("40 27 0:49 / /srv/data rw - aufs none rw,si=a2b", (0, 49), Kind.CONTAINER),
}


def found(table: str, path: str, device: tuple[int, int]) -> Mount | None:
    return mount_of(path, device, read_mounts(table.encode()))


def certain(table: str, path: str, device: tuple[int, int]) -> Mount:
    mount = found(table, path, device)
    assert mount is not None
    return mount


@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_file_systems(name):
    line, device, kind = KINDS[name]
    mount = certain(f"{DISK}\n{line}\n", PATH, device)
    assert (mount.point, mount.kind) == ("/srv/data", kind)


def test_a_container_with_a_volume():
    table = """\
600 500 0:300 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A,workdir=/w
601 600 0:302 / /proc rw,nosuid - proc proc rw
602 600 0:303 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
620 600 254:1 /var/lib/docker/volumes/jobs/_data /data rw,relatime master:2 - ext4 /dev/vda1 rw
621 600 254:1 /srv/one.db /app/one.db rw,relatime master:2 - ext4 /dev/vda1 rw
"""
    assert certain(table, "/data/jobs.db", (254, 1)).kind is Kind.LOCAL
    assert certain(table, "/app/jobs.db", (0, 300)).kind is Kind.CONTAINER
    assert certain(table, "/dev/jobs.db", (0, 303)).kind is Kind.VOLATILE
    # Bound into the container by itself.
    assert certain(table, "/app/one.db", (254, 1)).point == "/app/one.db"


def test_a_mount_that_is_hidden_under_a_later_one_is_not_taken():
    table = f"""\
{DISK}
40 27 0:44 / /srv/data/deep rw - tmpfs tmpfs rw
41 27 8:1 / /srv/data rw - ext4 /dev/sda1 rw
"""
    # /srv/data/deep of the tmpfs cannot be seen any more: what is there now is a folder of the disk.
    assert certain(table, "/srv/data/deep/jobs.db", (8, 1)).kind is Kind.LOCAL


def test_of_two_mounts_of_one_device_at_one_point_the_later_one_counts():
    table = f"{DISK}\n40 27 8:1 / /srv/data rw - ext4 /dev/sda1 rw\n41 40 8:1 /sub /srv/data rw - xfs other rw\n"
    assert certain(table, PATH, (8, 1)).source == "other"


def test_a_mount_of_the_file_that_is_hidden_is_not_taken():
    table = f"""\
{DISK}
40 27 0:44 /jobs.db /srv/data/jobs.db rw - tmpfs tmpfs rw
41 27 8:1 / /srv/data rw - ext4 /dev/sda1 rw
"""
    assert certain(table, PATH, (8, 1)).point == "/srv/data"
    assert certain(table, PATH, (0, 44)).point == PATH


def test_a_subvolume_of_btrfs_whose_device_no_mount_has():
    table = f"{DISK}\n40 27 0:35 /@data /srv/data rw shared:2 - btrfs /dev/sdb rw,subvol=/@data\n"
    assert certain(table, PATH, (0, 71)).kind_name == "btrfs"
    assert certain(table, "/srv/database.db", (0, 71)).point == "/"


def test_a_folder_whose_name_only_begins_alike_is_another_one():
    table = f"{DISK}\n40 27 0:44 / /srv/dat rw - tmpfs tmpfs rw\n"
    assert certain(table, PATH, (254, 0)).point == "/"
    assert found(table, PATH, (0, 44)) is None


def test_escapes_are_decoded():
    table = DISK + "\n" + r"40 27 0:44 / /srv/a\040b\011c\134d\012e rw - tmpfs tmpfs rw"
    assert certain(table, "/srv/a b\tc\\d\ne/jobs.db", (0, 44)).kind is Kind.VOLATILE


def test_bytes_that_are_no_text_are_kept_as_paths_carry_them():
    table = f"{DISK}\n40 27 0:44 / ".encode() + b"/srv/\xff\xe9 rw - tmpfs tmpfs rw\n"
    path = os.path.join(os.fsdecode(b"/srv/\xff\xe9"), "jobs.db")
    mount = mount_of(path, (0, 44), read_mounts(table))
    assert mount is not None
    assert mount.kind is Kind.VOLATILE


def test_optional_fields_of_any_number():
    table = "40 27 8:1 / /srv/data rw shared:1 master:2 propagate_from:3 unbindable - ext4 /dev/sda1 rw\n"
    assert certain(table, PATH, (8, 1)).kind_name == "ext4"


@pytest.mark.parametrize("line", ["", "garbage", "40 27 8:1 / /srv/data rw", "40 27 x / /srv/data rw - ext4 a rw"])
def test_lines_that_cannot_be_read_are_left_out(line):
    assert [mount.point for mount in read_mounts(f"{line}\n{DISK}\n".encode())] == ["/"]


def test_a_table_that_does_not_tell():
    assert found("", PATH, (8, 1)) is None
