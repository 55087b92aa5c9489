"""Floor 0: the words of the domain and its rules.

Everything here is pure: no store, no executor, no Django, no thread is started. Other floors build on these words.
"""
