package org.headrace.spark.catalog;

import org.apache.spark.scheduler.SparkListenerEvent;

/** What a Spark Connect server tells its listeners; its classes are not there in other applications. Driver JVM. */
final class ConnectEvents {
  private static final String SERVICE = "org.apache.spark.sql.connect.service.SparkListenerConnect";

  private ConnectEvents() {}

  /** The id of the session that this event says was closed; null where it says something else. */
  static String closedSession(SparkListenerEvent event) {
    return told(event, "SessionClosed", "sessionId");
  }

  /** The tag that all jobs of an operation bear which this event says was cancelled; null where it says something else. */
  static String cancelledOperation(SparkListenerEvent event) {
    return told(event, "OperationCanceled", "jobTag");
  }

  private static String told(SparkListenerEvent event, String kind, String value) {
    if (!event.getClass().getName().equals(SERVICE + kind)) {
      return null;
    }
    try {
      return (String) event.getClass().getMethod(value).invoke(event);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }
}
