package org.headrace.spark;

/** Where an error arose: a table, or null for a query's result, and a partition of it, or null for all. */
public record Place(String table, Integer partition) {
  /** As messages name it. */
  @Override
  public String toString() {
    String whole = table == null ? "the result" : "table '" + table + "'";
    return partition == null ? whole : "partition " + partition + " of " + whole;
  }
}
