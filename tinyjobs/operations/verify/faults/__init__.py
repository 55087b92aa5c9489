"""Faults of the store itself, for `verify --faults`: on a private server or file that it starts and takes away again.

Everything here is about the machine: programs, processes, sockets, disks. What the faults do to jobs is the campaign's
matter.
"""
