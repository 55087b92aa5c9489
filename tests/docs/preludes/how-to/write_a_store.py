"""The template store stands where the page's reader has copied it."""

import shutil

from tests.docs.pages import DOCS

shutil.copy(DOCS / "how-to" / "template_store.py", "template_store.py")
