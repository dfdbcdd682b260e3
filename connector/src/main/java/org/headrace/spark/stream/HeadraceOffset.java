package org.headrace.spark.stream;

import org.apache.spark.sql.connector.read.streaming.Offset;

/** A place in a stream: canonical JSON, as Python wrote it. Spark compares offsets by that text. */
final class HeadraceOffset extends Offset {
  private final String json;

  HeadraceOffset(String json) {
    this.json = json;
  }

  @Override
  public String json() {
    return json;
  }
}
