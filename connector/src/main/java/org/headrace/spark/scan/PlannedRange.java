package org.headrace.spark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.ref.Cleaner;
import org.headrace.spark.planner.Words;
import org.headrace.spark.read.HeadraceReaderFactory;

/**
 * The plan of one range of a stream, and the readers of its partitions; driver JVM. Immutable.
 *
 * <p>Python drops it when it is told to, or when the readers are garbage.
 */
public final class PlannedRange {
  private final JsonNode plan;
  private final String start;
  private final String end;
  private final HeadraceReaderFactory readers;
  private final Cleaner.Cleanable release;

  PlannedRange(JsonNode plan, String start, String end, HeadraceReaderFactory readers, Negotiation negotiation) {
    this.plan = plan;
    this.start = start;
    this.end = end;
    this.readers = readers;
    this.release = negotiation.releaseWith(readers, id());
  }

  public String id() {
    return plan.get(Words.PLAN).asText();
  }

  public String description() {
    return plan.get(Words.DESCRIPTION).asText();
  }

  public int partitionCount() {
    return plan.get(Words.PARTITIONS).asInt();
  }

  public HeadraceReaderFactory readers() {
    return readers;
  }

  /** Whether it is the plan of this range. */
  public boolean isBetween(String start, String end) {
    return this.start.equals(start) && this.end.equals(end);
  }

  /** Nobody reads the range any more. */
  public void release() {
    release.clean();
  }
}
