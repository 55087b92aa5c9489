"""Views for monitoring, mounted by `include("tinyjobs.urls")`. Each answers GET and HEAD, and changes nothing."""
