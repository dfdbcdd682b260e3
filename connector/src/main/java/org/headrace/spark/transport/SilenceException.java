package org.headrace.spark.transport;

import java.io.IOException;

/** The other side takes nothing and gives no sign of life: its host, or the network to it, is gone; executor JVM. */
public final class SilenceException extends IOException {
  private static final long serialVersionUID = 1L;

  SilenceException() {
    super("no sign of life for " + Protocol.SILENCE_SECONDS + " s");
  }
}
