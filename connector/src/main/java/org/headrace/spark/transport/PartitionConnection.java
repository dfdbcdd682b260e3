package org.headrace.spark.transport;

import org.headrace.spark.HeadraceException;

/** One open partition: its frames, and the two ways to be done with it; executor JVM, one task's thread. */
public interface PartitionConnection {
  FrameInput frames();

  /** Whether there is nothing to be read, not even the end of the connection. */
  boolean isQuiet();

  /** The stream was read up to its END or ERROR frame, or was sent and answered. */
  void finish();

  /**
   * The stream is no longer wanted, or broke: the producer is told to stop, and why. Never blocks on it. {@code reason} is
   * the word of a ScanEndedError, a line end and a sentence, or empty.
   */
  void abandon(String reason);

  /** The other side vanished in the middle of the stream: releases everything and returns what to tell the user. */
  HeadraceException lost();
}
