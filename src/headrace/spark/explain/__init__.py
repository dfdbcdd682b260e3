"""``ctx.explain``: what was negotiated for each scan, and why something was not used."""
