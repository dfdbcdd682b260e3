"""Sockets live here and nowhere else: frames, their writer, the driver's endpoint."""
