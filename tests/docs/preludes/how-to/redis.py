"""Django is set up once the page has written the settings."""

from tests.docs.scene import begin

before_code = begin
