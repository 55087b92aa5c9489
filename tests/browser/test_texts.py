"""Text out of a store that tries to be markup or script is shown as text, wherever it stands."""

from urllib.parse import urlencode

import pytest

from tests.browser.spoiling import EVIL, pages_of, spoil
from tests.dashboard.conftest import store
from tests.taskbackend.shop import tasks

pytestmark = [pytest.mark.sqlite, pytest.mark.django_db(transaction=True)]


def test_no_page_runs_it(admin):
    for page in pages_of(spoil(store())):
        admin.open(f"/admin/tinyjobs/{page}")
        assert admin.is_unharmed(), page
        assert "window.ran = true" in admin.browser.page_source, f"it is not on {page!r} at all"


@pytest.mark.parametrize("name", ["q", "queue", "task", "status", "cursor", "backend"])
def test_no_filter_runs_it(admin, name):
    tasks.noop.enqueue()
    admin.open("/admin/tinyjobs/job/?" + urlencode({name: EVIL}))
    assert admin.is_unharmed()
    admin.complaints()  # a 404 is one
