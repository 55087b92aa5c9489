"""The app that the documentation's examples belong to."""
