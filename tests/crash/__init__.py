"""Tests with real processes and real signals: what a killed, stopped or suspended worker leaves behind.

`program.py` is what the processes run, `workshop.py` starts them and reads what they left. Everything here is bounded
to seconds; the storms are marked `slow`, which `runtests.py --fast` leaves out. The soak of `test_soak.py` runs for
seven seconds; TINYJOBS_SOAK_SECONDS=60 makes it the full minute, and it prints its figures (pytest -s).
"""
