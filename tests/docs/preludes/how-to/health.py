"""A project with its tables made."""

from tests.docs.scene import begin

begin()
