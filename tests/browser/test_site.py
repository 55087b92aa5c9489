"""The browser itself: it opens the admin under the strict policy, and what it refuses is seen."""

import pytest

pytestmark = [pytest.mark.sqlite, pytest.mark.django_db(transaction=True)]


def test_the_admin_opens_without_a_complaint(admin):
    admin.open("/admin/")
    assert "Site administration" in admin.text


def test_an_inline_script_is_refused_and_seen(admin):
    admin.open("/admin/")
    admin.run(
        "const made = document.createElement('script'); made.textContent = 'window.ran = true';"
        "document.body.append(made)"
    )
    assert admin.run("return window.ran === undefined")
    assert any("Content Security Policy" in line for line in admin.complaints())
