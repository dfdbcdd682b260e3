"""What waits on disk: Arrow batches beyond their share of memory, in directories of this process alone."""
