"""Ways in which job queues have failed their users, by topic, each as a test from the outside."""
