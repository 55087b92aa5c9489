"""Django settings of the test suite, one module for each store."""
