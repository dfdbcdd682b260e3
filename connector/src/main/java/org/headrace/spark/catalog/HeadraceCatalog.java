package org.headrace.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
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
import org.headrace.spark.scan.HashFunction;
import org.headrace.spark.transport.RemotePlanner;

/**
 * A catalog whose tables are Python's; driver JVM.
 *
 * <p>Either a context's own, with the tables registered there and no namespaces, or one that a CatalogProvider answers
 * for, whose schemas are the namespaces. Python knows by the name which it is.
 */
public final class HeadraceCatalog implements TableCatalog, SupportsNamespaces, FunctionCatalog {
  /** The hash of the pickled provider. */
  private static final String PROVIDER = "headrace.provider";

  private String name;
  private String context;
  private boolean plansHere;

  /** The options are of a Spark Connect session, and whatever its client says; a classic one needs none. */
  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    if (!options.containsKey("context")) {
      return;
    }
    this.context = SessionArtifact.owned(options.get("context"));
    this.plansHere = options.containsKey("archive");
    SparkContext spark = SparkSession.active().sparkContext();
    if (plansHere) {
      Planners.connect(context, () -> new PlannerProcess(spark, options.get("session"), options.get("archive")));
    } else if (options.containsKey("planner")) {
      Planners.connect(context, () -> new RemotePlanner(SessionArtifact.json(options.get("planner"))));
    } else {
      throw Planners.failed("HeadraceError", SessionArtifact.NOT_OF_THIS_SESSION);
    }
    if (options.containsKey("session")) {
      LateJobs.watch(spark, options.get("session"));
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
    return load(ident, question(ident.namespace()).put("version", version));
  }

  @Override
  public Table loadTable(Identifier ident, long timestamp) throws NoSuchTableException {
    return load(ident, question(ident.namespace()).put("timestamp", timestamp));
  }

  private Table load(Identifier ident, ObjectNode question) throws NoSuchTableException {
    String live = live();
    JsonNode answer = live == null ? null : Planners.ask(live, "load", question.put("table", ident.name()));
    if (answer == null || !answer.path("exists").asBoolean()) {
      throw new NoSuchTableException(ident);
    }
    return answer.path("held").asBoolean() ? HeadraceTable.held(live, answer) : HeadraceTable.of(live, answer);
  }

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    List<Identifier> tables = new ArrayList<>();
    ask("list", namespace).path("tables").forEach(table -> tables.add(Identifier.of(namespace, table.asText())));
    return tables.toArray(new Identifier[0]);
  }

  @Override
  public String[][] listNamespaces() {
    List<String[]> namespaces = new ArrayList<>();
    String live = live();
    if (live != null) {
      Planners.ask(live, "schemas", question(new String[0]))
          .path("schemas")
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
    ask("schema", namespace);
    return Map.of();
  }

  /** Asks about a namespace, which may not exist. */
  private JsonNode ask(String operation, String[] namespace) throws NoSuchNamespaceException {
    String live = live();
    JsonNode answer = live == null ? null : Planners.ask(live, operation, question(namespace));
    boolean exists = answer != null && (namespace.length == 0 || answer.path("exists").asBoolean());
    if (!exists) {
      throw new NoSuchNamespaceException(namespace);
    }
    return answer;
  }

  /** The context that answers, which a Connect session's settings name; null where there is none any more. */
  private String live() {
    return context == null ? Catalogs.contextOf(name) : Planners.isLive(context) ? context : null;
  }

  private ObjectNode question(String[] namespace) {
    ObjectNode question = Planners.JSON.createObjectNode().put("catalog", name);
    ArrayNode parts = question.putArray("namespace");
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
    if (!plansHere || !properties.containsKey(PROVIDER)) {
      throw readOnly();
    }
    byte[] pickled = SessionArtifact.bytes(properties.get(PROVIDER));
    Planners.ask(context, "add_table", Map.of("table", Base64.getEncoder().encodeToString(pickled)));
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

  @Override
  public boolean dropTable(Identifier ident) {
    if (!plansHere) {
      throw readOnly();
    }
    Planners.ask(context, "drop_table", Map.of("table", ident.name()));
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

  @Override
  public Identifier[] listFunctions(String[] namespace) {
    return new Identifier[0];
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
