"""Programs that use an app and end in every way there is. `python -m tests.app.exits --times 100` runs them all."""
