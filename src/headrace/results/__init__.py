"""What comes back from Spark: the inbox of a result, and the receiver of each task's frames."""
