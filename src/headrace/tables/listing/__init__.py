"""ListingTable: many files of a format of one's own as one table."""
