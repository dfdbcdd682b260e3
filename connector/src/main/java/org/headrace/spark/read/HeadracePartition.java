package org.headrace.spark.read;

import org.apache.spark.sql.connector.read.InputPartition;

/** A partition by its number: all else is the same for the whole scan and travels once, in the reader factory. */
public class HeadracePartition implements InputPartition {
  private static final long serialVersionUID = 1L;
  private final int index;

  public HeadracePartition(int index) {
    this.index = index;
  }

  final int index() {
    return index;
  }
}
