"""An app with schedules."""
