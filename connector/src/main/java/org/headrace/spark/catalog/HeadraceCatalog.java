package org.headrace.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.planner.Words;
import org.headrace.spark.push.QueryEndListener;
import org.headrace.spark.push.SingleScanRule;
import org.headrace.spark.scan.HashFunction;
import org.headrace.spark.scan.ScanRules;
import scala.Option;

/**
 * A catalog whose tables are Python's; driver JVM.
 *
 * <p>Either a context's own, with the tables registered there and no namespaces, or one that a CatalogProvider answers
 * for, whose schemas are the namespaces. Python knows by the name which it is.
 */
public final class HeadraceCatalog implements TableCatalog, SupportsNamespaces, FunctionCatalog {
  /** The hash of the pickled provider. */
  private static final String PROVIDER = "headrace.provider";

  /** The table whose DROP says that a context has closed; no table has a dot in its name. */
  private static final String CONTEXT = "headrace.context";

  private String name;

  /**
   * Installs the rules of Headrace's tables in the session that uses the catalog: all its tables come through here. Who
   * answers is not kept, as Spark never unloads a catalog.
   */
  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    Option<SparkSession> active = SparkSession.getActiveSession();
    Option<SparkSession> session = active.isDefined() ? active : SparkSession.getDefaultSession();
    if (session.isDefined()) { // without one nothing is planned
      ScanRules.install(session.get(), new SingleScanRule());
    }
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Table loadTable(Identifier ident) throws NoSuchTableException {
    return load(ident, question(ident.namespace()));
  }

  @Override
  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    return load(ident, question(ident.namespace()).put(Words.VERSION, version));
  }

  @Override
  public Table loadTable(Identifier ident, long timestamp) throws NoSuchTableException {
    return load(ident, question(ident.namespace()).put(Words.TIMESTAMP, timestamp));
  }

  private Table load(Identifier ident, ObjectNode question) throws NoSuchTableException {
    String live = live();
    JsonNode answer = live == null ? null : Planners.ask(live, Words.LOAD, question.put(Words.TABLE, ident.name()));
    if (answer == null || !answer.path(Words.EXISTS).asBoolean()) {
      throw new NoSuchTableException(ident);
    }
    if (answer.path(Words.PUSH).asBoolean()) {
      QueryEndListener.install(live);
    }
    return answer.path(Words.HELD).asBoolean() ? HeadraceTable.held(live, answer) : HeadraceTable.of(live, answer);
  }

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    List<Identifier> tables = new ArrayList<>();
    ask(Words.LIST, namespace).path(Words.TABLES).forEach(table -> tables.add(Identifier.of(namespace, table.asText())));
    return tables.toArray(new Identifier[0]);
  }

  @Override
  public String[][] listNamespaces() {
    List<String[]> namespaces = new ArrayList<>();
    String live = live();
    if (live != null) {
      Planners.ask(live, Words.SCHEMAS, question(new String[0]))
          .path(Words.SCHEMAS)
          .forEach(schema -> namespaces.add(new String[] {schema.asText()}));
    }
    return namespaces.toArray(new String[0][]);
  }

  @Override
  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length == 0) {
      return listNamespaces();
    }
    loadNamespaceMetadata(namespace);
    return new String[0][];
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    ask(Words.SCHEMA, namespace);
    return Map.of();
  }

  /** Asks about a namespace, which may not exist. */
  private JsonNode ask(String operation, String[] namespace) throws NoSuchNamespaceException {
    String live = live();
    JsonNode answer = live == null ? null : Planners.ask(live, operation, question(namespace));
    boolean exists = answer != null && (namespace.length == 0 || answer.path(Words.EXISTS).asBoolean());
    if (!exists) {
      throw new NoSuchNamespaceException(namespace);
    }
    return answer;
  }

  /** The context that answers now; null where there is none any more. */
  private String live() {
    String connected = ConnectContext.of(name);
    return connected == null ? Catalogs.contextOf(name) : connected;
  }

  private ObjectNode question(String[] namespace) {
    ObjectNode question = Planners.JSON.createObjectNode().put(Words.CATALOG, name);
    ArrayNode parts = question.putArray(Words.NAMESPACE);
    for (String part : namespace) {
      parts.add(part);
    }
    return question;
  }

  /** How a Spark Connect client registers a table with the process beside the server. */
  @Override
  @SuppressWarnings("deprecation") // the newer method of later Sparks calls this one
  public Table createTable(
      Identifier ident, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    if (!ConnectContext.plansBesideServer(name) || !properties.containsKey(PROVIDER)) {
      throw readOnly();
    }
    byte[] pickled = SessionArtifact.bytes(properties.get(PROVIDER));
    Planners.ask(live(), Words.ADD_TABLE, Map.of(Words.TABLE, Base64.getEncoder().encodeToString(pickled)));
    try {
      return loadTable(ident);
    } catch (NoSuchTableException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public Table alterTable(Identifier ident, TableChange... changes) {
    throw readOnly();
  }

  /** Spark drops what exists. */
  @Override
  public boolean tableExists(Identifier ident) {
    return ident.name().equals(CONTEXT) || TableCatalog.super.tableExists(ident);
  }

  @Override
  public boolean dropTable(Identifier ident) {
    if (!ConnectContext.plansBesideServer(name)) {
      throw readOnly();
    }
    if (ident.name().equals(CONTEXT)) {
      Planners.unregister(live());
    } else {
      Planners.ask(live(), Words.DROP_TABLE, Map.of(Words.TABLE, ident.name()));
    }
    return true;
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    throw readOnly();
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata) {
    throw readOnly();
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw readOnly();
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) {
    throw readOnly();
  }

  /** The context's table functions, which are those of the session from now on: how Python registers and drops them. */
  @Override
  public Identifier[] listFunctions(String[] namespace) {
    String live = live();
    List<String> functions = new ArrayList<>();
    if (live != null) {
      Planners.ask(live, Words.FUNCTIONS, question(namespace)).path(Words.FUNCTIONS).forEach(one -> functions.add(one.asText()));
      TableFunctions.agree(live, functions);
    }
    return functions.stream().map(function -> Identifier.of(namespace, function)).toArray(Identifier[]::new);
  }

  @Override
  public UnboundFunction loadFunction(Identifier ident) throws NoSuchFunctionException {
    if (!ident.name().startsWith(HashFunction.PREFIX)) {
      throw new NoSuchFunctionException(ident);
    }
    return new HashFunction(ident.name());
  }

  private static UnsupportedOperationException readOnly() {
    return new UnsupportedOperationException(
        "Headrace's tables and catalogs are registered and deregistered in Python (a SessionContext's register_table"
            + " and register_catalog)");
  }
}
