"""Floor 0: the words of the domain and its rules.

Everything here is pure: it knows no store, no executor and no Django, and starts no thread. All other floors build on
it.
"""
