"""The JSON codec of a Django project's jobs: `from tinyjobs import codec` registers types of one's own with it.

One for all aliases, whatever becomes of their settings, so that what a module registers when it is imported holds. Such
values are only accepted where `rich_arguments` is on. Needs nothing of Django, so a `models.py` may import it.
"""

from typing import Final

from tinyjobs.core.codecs.tagged import JSONCodec

codec: Final = JSONCodec()
