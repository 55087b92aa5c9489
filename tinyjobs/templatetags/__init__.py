"""What the dashboard's templates load: `{% load tinyjobs_dashboard %}`. Knows values, not where they came from."""
