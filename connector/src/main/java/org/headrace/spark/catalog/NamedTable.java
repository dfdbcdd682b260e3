package org.headrace.spark.catalog;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.headrace.spark.planner.Planners;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The table that the options of {@code format("headrace")} name in the session of this thread; driver JVM.
 *
 * <p>{@code table} is looked for in the catalog of the option {@code catalog}. Without that, it is what the bare name
 * shows in the session, or else the one table of that name in all catalogs of Headrace's that the session has.
 */
record NamedTable(String catalog, Identifier identifier) {
  private static final String TABLE = "table";
  private static final String CATALOG = "catalog";
  private static final String SETTING = "spark.sql.catalog.";
  private static final int MOST_NAMES = 10;

  /** Throws what fails while Spark plans where the options name no table, one that is not there, or more than one. */
  static NamedTable of(CaseInsensitiveStringMap options) {
    String name = options.get(TABLE);
    if (name == null || name.isBlank()) {
      String path = options.get("path");
      throw failed(
          "the format 'headrace' needs the option 'table', the name of a registered table: .option(\"table\", \""
              + (path == null ? "orders" : path) + "\"), or in SQL USING headrace OPTIONS (table 'orders')");
    }
    SparkSession session = SparkSession.active();
    String[] parts = parts(session, name);
    String wanted = options.get(CATALOG);
    if (wanted == null && parts.length == 1) {
      NamedTable shown = shown(session, name);
      if (shown != null) {
        return shown;
      }
    }
    Set<String> catalogs = catalogs(session);
    List<NamedTable> found = new ArrayList<>();
    for (String catalog : catalogs) {
      boolean qualified = wanted == null && parts.length > 1 && parts[0].equals(catalog);
      if (wanted == null || wanted.equals(catalog)) {
        NamedTable table = at(catalog, qualified ? Arrays.copyOfRange(parts, 1, parts.length) : parts);
        if (table.exists()) {
          found.add(table);
        }
      }
    }
    if (found.size() == 1) {
      return found.get(0);
    }
    throw found.isEmpty() ? missing(name, wanted, catalogs) : ambiguous(name, found);
  }

  /** The table that the session's temporary view of this name shows, as registering makes it; null where there is none. */
  static NamedTable shown(SparkSession session, String name) {
    Option<View> view = session.sessionState().catalog().getTempView(name);
    if (view.isEmpty() || !(view.get().child() instanceof SubqueryAlias alias) || !alias.child().children().isEmpty()) {
      return null;
    }
    List<String> parts = new ArrayList<>(CollectionConverters.asJava(alias.identifier().qualifier()));
    if (parts.isEmpty() || HeadraceCatalog.contextOf(parts.get(0)) == null) {
      return null;
    }
    parts.add(alias.identifier().name());
    return at(parts.get(0), parts.subList(1, parts.size()).toArray(new String[0]));
  }

  Table load() {
    try {
      return plugin(catalog).loadTable(identifier, Set.of());
    } catch (NoSuchTableException e) {
      throw missing(identifier.name(), catalog, catalogs(SparkSession.active())); // deregistered a moment ago
    }
  }

  /** What Python keeps of the table's source is read again. */
  void refresh() {
    plugin(catalog).invalidateTable(identifier);
  }

  private boolean exists() {
    return plugin(catalog).tableExists(identifier);
  }

  private static NamedTable at(String catalog, String[] parts) {
    int last = parts.length - 1;
    return new NamedTable(catalog, Identifier.of(Arrays.copyOf(parts, last), parts[last]));
  }

  /** A registered name may be any text without a dot and a backtick. */
  private static String[] parts(SparkSession session, String name) {
    if (!name.contains(".") && !name.contains("`")) {
      return new String[] {name};
    }
    try {
      return CollectionConverters.asJava(session.sessionState().sqlParser().parseMultipartIdentifier(name))
          .toArray(new String[0]);
    } catch (ParseException e) {
      throw failed("the option 'table' is no name: '" + name + "'; a part with other characters goes into backticks");
    }
  }

  /** Those for which a context answers: that the session's settings name, and all of the application's own process. */
  private static Set<String> catalogs(SparkSession session) {
    Set<String> names = new LinkedHashSet<>();
    for (Map.Entry<String, String> setting : CollectionConverters.asJava(session.conf().getAll()).entrySet()) {
      if (setting.getKey().startsWith(SETTING) && setting.getValue().equals(HeadraceCatalog.class.getName())) {
        names.add(setting.getKey().substring(SETTING.length()));
      }
    }
    names.addAll(Catalogs.names());
    names.removeIf(name -> HeadraceCatalog.contextOf(name) == null);
    return names;
  }

  /** As Spark would make it; it keeps nothing but its name. */
  private static HeadraceCatalog plugin(String catalog) {
    HeadraceCatalog plugin = new HeadraceCatalog();
    plugin.initialize(catalog, CaseInsensitiveStringMap.empty());
    return plugin;
  }

  /** The catalog, which Spark finds by the settings of the session from now on: that may be older than the context. */
  String catalogInSession() {
    SparkSession session = SparkSession.active();
    if (!session.conf().contains(SETTING + catalog)) {
      session.conf().set(SETTING + catalog, HeadraceCatalog.class.getName());
    }
    return catalog;
  }

  private static RuntimeException ambiguous(String name, List<NamedTable> found) {
    String catalogs = found.stream().map(NamedTable::catalog).sorted().collect(Collectors.joining(", "));
    return failed(
        "several session contexts have a table '" + name + "'; say which with the option 'catalog' (one of: " + catalogs
            + ")");
  }

  private static RuntimeException missing(String name, String wanted, Set<String> catalogs) {
    if (catalogs.isEmpty()) {
      return Planners.failed(
          "ClosedError",
          "the format 'headrace' finds no table '" + name + "': no SessionContext is open in this session's application;"
              + " make one and register the table there");
    }
    if (wanted != null && !catalogs.contains(wanted)) {
      return failed(
          "no SessionContext answers for the catalog '" + wanted + "'; the catalogs of Headrace's here are: "
              + String.join(", ", catalogs));
    }
    Stream<String> looked = wanted == null ? catalogs.stream() : Stream.of(wanted);
    String registered =
        looked.map(catalog -> catalog + ": " + names(catalog)).collect(Collectors.joining("; "));
    return failed(
        "no table '" + name + "' is registered, or it was deregistered or dropped. Registered, by catalog: " + registered);
  }

  private static String names(String catalog) {
    try {
      List<String> names = Stream.of(plugin(catalog).listTables(new String[0])).map(Identifier::name).toList();
      String shown = String.join(", ", names.subList(0, Math.min(names.size(), MOST_NAMES)));
      return names.isEmpty() ? "none" : names.size() > MOST_NAMES ? shown + ", ..." : shown;
    } catch (NoSuchNamespaceException e) {
      return "none";
    }
  }

  private static RuntimeException failed(String message) {
    return Planners.failed("HeadraceError", message);
  }
}
