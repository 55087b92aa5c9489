"""Every SQL verb, written once over named statements and a small connection interface.

A store's own folder brings the statements, the connection and the translation of its driver's errors.
"""
