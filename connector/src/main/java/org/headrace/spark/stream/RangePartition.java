package org.headrace.spark.stream;

import org.headrace.spark.read.HeadracePartition;
import org.headrace.spark.read.HeadraceReaderFactory;

/**
 * A partition of a range, with the readers of that range's plan.
 *
 * <p>A stream makes one reader factory for many ranges: Spark asks for it without saying for which, and a batch that
 * foreachBatch has kept may be planned while the next one is.
 */
final class RangePartition extends HeadracePartition {
  private static final long serialVersionUID = 1L;
  private final HeadraceReaderFactory readers;

  RangePartition(int index, HeadraceReaderFactory readers) {
    super(index);
    this.readers = readers;
  }

  HeadraceReaderFactory readers() {
    return readers;
  }
}
