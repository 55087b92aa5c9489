"""The release's number: read by the build, the banner and `tinyjobs --version`.

It is a plain assignment, so that the build reads it without importing the package.
"""

__version__ = "1.0.0.dev0"
