"""Schedules from end to end: through the facade, in Django, by the commands, and by processes that race and die."""
