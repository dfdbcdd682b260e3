"""What a module beside the script imports in turn."""

START = 40
