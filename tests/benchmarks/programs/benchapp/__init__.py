"""The one app of the Django programs' project; it holds the tasks, where each of their workers looks for them."""
