"""The shop's story, told by `manage.py demo`: orders, a worker that is killed, another one that finishes.

`story` is what happens, `workers` are the processes it happens in, `verdict` reads the store in the end and says
whether everything is as it should be.
"""
