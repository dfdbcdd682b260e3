"""FlightTable: a table behind an Arrow Flight server."""
