package org.headrace.spark.catalog;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.headrace.spark.planner.Planners;

/**
 * Which session context answers for which catalog; driver JVM.
 *
 * <p>Spark never unloads a catalog, so a catalog asks here at every call: a name that was given up has no tables, and a
 * context that takes it later is found by catalogs that Spark has loaded long before.
 */
public final class Catalogs {
  private static final Map<String, String> CONTEXTS = new ConcurrentHashMap<>();

  private Catalogs() {}

  /** Called from Python; whether the name was free and is this context's now. */
  public static synchronized boolean claim(String catalog, String context) {
    boolean free = contextOf(catalog) == null;
    if (free) {
      CONTEXTS.put(catalog, context);
    }
    return free;
  }

  /** Called from Python when a context closes, or a catalog is deregistered. */
  public static void release(String catalog, String context) {
    CONTEXTS.remove(catalog, context);
  }

  /** The catalogs of contexts of this process, some of which may have left. */
  static List<String> names() {
    return CONTEXTS.keySet().stream().sorted().toList();
  }

  /** The live context of a catalog, or null. */
  static String contextOf(String catalog) {
    String context = CONTEXTS.get(catalog);
    return context != null && Planners.isLive(context) ? context : null;
  }
}
