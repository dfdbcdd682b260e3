"""DatasetTable: files that pyarrow.dataset reads."""
