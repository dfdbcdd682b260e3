"""What the project's Makefile runs: the version matrix, and the comparison of class files. Not part of the package."""
