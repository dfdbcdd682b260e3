package org.headrace.spark;

import org.apache.spark.sql.connector.read.InputPartition;

/** A partition by its number: all else is the same for the whole scan and travels once, in the reader factory. */
class HeadracePartition implements InputPartition {
  private static final long serialVersionUID = 1L;
  private final int index;

  HeadracePartition(int index) {
    this.index = index;
  }

  final int index() {
    return index;
  }
}
