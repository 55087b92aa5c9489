"""What each page says, as a dictionary that has words in JSON: a page is made of it, and `/api/` sends it.

A page is a function of a desk and of what was asked for. Instants are unix seconds, as everywhere below the pages.
"""
