"""Tests of the django.tasks face."""
