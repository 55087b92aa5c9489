"""The contract suite, bound to each store that is here, direct and through the sync face."""
