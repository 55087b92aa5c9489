"""The documentation as tests: code blocks run, tables are held against the code, the site builds without a warning."""
