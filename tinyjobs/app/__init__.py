"""The TinyJobs facade: the engine for a program without Django. Tasks, enqueueing, looking, steering, draining."""
