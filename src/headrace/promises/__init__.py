"""What a provider promised, checked on rows: one set of checks for ``verify`` and for the testing kit."""
