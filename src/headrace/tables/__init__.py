"""The ready-made providers, one module each; driver Python, their plans run where their placement says."""
