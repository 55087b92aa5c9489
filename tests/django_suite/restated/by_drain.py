"""What stands in the place of an immediate run: the job is drained on the test's own connection and read again.

Copied into Django's package `tasks`, as its module `running`.
"""

from tinyjobs.testing import adrain, drain


def ran(result):
    drain()
    result.refresh()
    return result


async def aran(result):
    await adrain()
    await result.arefresh()
    return result
