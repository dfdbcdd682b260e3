"""Services that answer over HTTP, page by page."""
