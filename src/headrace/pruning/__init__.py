"""What filters say of columns and of containers of rows, so that data can be skipped; pure, runs anywhere."""
