package org.headrace.spark.catalog;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.transport.RemotePlanner;

/**
 * The session context that answers for a catalog of a Spark Connect session, as the session's settings name it; driver
 * JVM, a thread of the session.
 *
 * <p>The settings are whatever the session's client says. A classic session has none.
 */
final class ConnectContext {
  private ConnectContext() {}

  /** The context, which can be asked from now on; null where the settings name none. */
  static String of(String catalog) {
    String told = setting(catalog, "context");
    if (told == null) {
      return null;
    }
    String context = SessionArtifact.owned(told);
    if (!Planners.isLive(context)) {
      connect(catalog, context);
    }
    return context;
  }

  /** Whether a process beside the server plans, which is told of tables by DDL. */
  static boolean plansBesideServer(String catalog) {
    return setting(catalog, "context") != null && setting(catalog, "archive") != null;
  }

  private static void connect(String catalog, String context) {
    String archive = setting(catalog, "archive");
    String address = setting(catalog, "planner");
    if (archive == null && address == null) {
      throw Planners.failed("HeadraceError", SessionArtifact.NOT_OF_THIS_SESSION);
    }
    try {
      if (archive != null) {
        PlannerProcess process = new PlannerProcess(archive);
        Planners.connect(context, process, true);
        Planners.install(context, "process", () -> process::end);
      } else {
        RemotePlanner client = new RemotePlanner(SessionArtifact.json(address));
        Planners.connect(context, client, true);
        client.holdLifeline(context);
      }
    } catch (HeadraceException e) {
      Planners.unregister(context);
      throw Planners.failed(e);
    }
    SparkSession session = SparkSession.active();
    String named = key(catalog, "context");
    ConnectSessions.listen(
        session.sparkContext(), setting(catalog, "session"), context, () -> session.conf().contains(named));
  }

  private static String setting(String catalog, String key) {
    return SQLConf.get().getConfString(key(catalog, key), null);
  }

  private static String key(String catalog, String key) {
    return "spark.sql.catalog." + catalog + "." + key;
  }
}
