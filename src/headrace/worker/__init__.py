"""What runs in Spark's Python workers, and the daemon that forks them; executor Python."""
