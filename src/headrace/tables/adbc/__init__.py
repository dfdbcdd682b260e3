"""AdbcTable: a table of a database, read with ADBC."""
