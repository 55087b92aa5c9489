"""How the server is set up, as far as jobs depend on it: its version, its kind, what it does when memory is full."""

import logging

from tinyjobs.backends.redis.link import Link
from tinyjobs.core.errors import ConfigurationError, StoreError

logger = logging.getLogger("tinyjobs.store")

OLDEST = (6, 2)


async def check_server(link: Link, where: str) -> None:
    """Refuse a server that cannot hold jobs, and warn of one that may drop them. What it does not tell is no matter."""
    try:
        told = read_info(await link.command("INFO"))
    except StoreError as error:
        if type(error) is not StoreError:
            raise
        # A user of the server's may be forbidden to ask.
        logger.info("%s does not say how it is set up: %s", where, error)
        return
    version = _version(told.get("redis_version", ""))
    if version and version < OLDEST:
        raise ConfigurationError(
            f"{where} runs version {told['redis_version']}; tinyjobs needs {OLDEST[0]}.{OLDEST[1]} or newer."
        )
    if told.get("cluster_enabled") == "1":
        raise ConfigurationError(
            f"{where} is a node of a cluster. All keys of a store are in one slot, so a cluster would hold them on one "
            f"node: use a single server, or the primary of a replicated one."
        )
    policy = told.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        # What expires by itself is no job.
        dropped = "figures and marks of lost claims" if policy.startswith("volatile-") else "jobs"
        logger.warning(
            "%s: with maxmemory-policy %s the server drops %s without a word when its memory is full. Set it to "
            "noeviction.",
            where,
            policy,
            dropped,
        )


def read_info(info: bytes) -> dict[str, str]:
    """The fields of an answer to INFO, as texts."""
    lines = (line.partition(":") for line in info.decode("utf-8", "replace").splitlines())
    return {name: value.strip() for name, mark, value in lines if mark}


def _version(text: str) -> tuple[int, ...]:
    parts = text.split(".")[:2]
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) and text else ()
