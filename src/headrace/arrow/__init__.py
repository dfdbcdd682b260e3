"""Arrow types, batches and sources: each question asked in one place; knows no Spark and no plan."""
