"""The values and rules of floor 0 by themselves: cron expressions, time zones, firings that are due or missed."""
