"""A database engine of a third party, as those that ask for a token at each connect."""
