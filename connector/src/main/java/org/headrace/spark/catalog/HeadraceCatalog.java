package org.headrace.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.planner.Words;
import org.headrace.spark.push.QueryEndListener;
import org.headrace.spark.push.SingleScanRule;
import org.headrace.spark.scan.HashFunction;
import org.headrace.spark.scan.ScanRules;
import org.headrace.spark.stream.PrunedStreamRule;
import org.headrace.spark.write.HandoffStrategy;
import scala.Option;

/**
 * A catalog whose tables are Python's; driver JVM.
 *
 * <p>Either a context's own, with the tables registered there, in no namespace and again in one called default, or one
 * that a CatalogProvider answers for, whose schemas are the namespaces. Python knows by the name which it is.
 */
public final class HeadraceCatalog implements TableCatalog, SupportsNamespaces, FunctionCatalog {
  /** The hash of the pickled provider. */
  private static final String PROVIDER = "headrace.provider";

  /** CREATE of a table after this says that it is registered, perhaps in place of one that Spark would see to exist. */
  private static final String REGISTERED = "headrace.registered.";

  /** The table whose DROP says that a context has closed; no table has a dot in its name. */
  private static final String CONTEXT = "headrace.context";

  private static final String[] DEFAULT = {"default"};

  private static final String NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND";

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
      ScanRules.install(
          session.get(), List.of(new SingleScanRule(), new BareNameRule(), new RowChangesRule(), new PrunedStreamRule()));
      HandoffStrategy.install(session.get(), List.of(new HandoffStrategy(), new CachedDeletionStrategy()));
    }
  }

  @Override
  public String name() {
    return name;
  }

  /**
   * Where a query reads {@code headrace.orders} and there is no such table, Spark takes the catalog's name for a format's,
   * and says that the format reads no files. It does not look further where this throws another exception.
   */
  @Override
  public Table loadTable(Identifier ident) throws NoSuchTableException {
    return load(ident, question(ident.namespace()), isLikeAFile(ident));
  }

  /**
   * For a DELETE Spark builds a scan that it never runs: Python is not asked for that one.
   *
   * <p>DELETE, UPDATE and MERGE look for a file as queries do. {@code saveAsTable} creates a missing table after Spark's
   * own exception: that statement then says where tables of this catalog come from.
   */
  @Override
  public Table loadTable(Identifier ident, Set<TableWritePrivilege> privileges) throws NoSuchTableException {
    boolean mayCreate = privileges.contains(TableWritePrivilege.INSERT);
    HeadraceTable table = load(ident, question(ident.namespace()), isLikeAFile(ident) && !mayCreate);
    return privileges.equals(Set.of(TableWritePrivilege.DELETE)) ? table.neverScanned() : table;
  }

  @Override
  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    return load(ident, question(ident.namespace()).put(Words.VERSION, version), isLikeAFile(ident));
  }

  @Override
  public Table loadTable(Identifier ident, long timestamp) throws NoSuchTableException {
    return load(ident, question(ident.namespace()).put(Words.TIMESTAMP, timestamp), isLikeAFile(ident));
  }

  private boolean isLikeAFile(Identifier ident) {
    return ident.namespace().length == 0 && name.equalsIgnoreCase(HeadraceSource.NAME);
  }

  private HeadraceTable load(Identifier ident, ObjectNode question, boolean failsAtOnce) throws NoSuchTableException {
    String live = live();
    JsonNode answer = live == null ? null : Planners.ask(live, Words.LOAD, question.put(Words.TABLE, ident.name()));
    if (answer == null || !answer.path(Words.EXISTS).asBoolean()) {
      if (failsAtOnce) {
        String near = answer == null ? "Its session context is closed" : answer.path(Words.NEAR).asText();
        throw Planners.unchecked(notFound(ident.name(), near));
      }
      throw new NoSuchTableException(ident);
    }
    if (answer.path(Words.PUSH).asBoolean()) {
      QueryEndListener.install(live);
    }
    return answer.path(Words.HELD).asBoolean() ? HeadraceTable.held(live, answer) : HeadraceTable.of(live, answer);
  }

  private AnalysisException notFound(String table, String near) {
    Option<Object> nowhere = Option.empty();
    return new AnalysisException(
        "[" + NOT_FOUND + "] The catalog '" + name + "' has no table '" + table + "'. " + near + ". SQLSTATE: 42P01",
        nowhere,
        nowhere,
        Option.empty(),
        Option.apply(NOT_FOUND),
        new scala.collection.immutable.Map.Map1<>("relationName", "`" + name + "`.`" + table + "`"),
        new QueryContext[0]);
  }

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    List<Identifier> tables = new ArrayList<>();
    String[] shown = namespace.length == 0 ? DEFAULT : namespace; // spark.catalog.listTables parses its text
    ask(Words.LIST, namespace).path(Words.TABLES).forEach(table -> tables.add(Identifier.of(shown, table.asText())));
    return tables.toArray(new Identifier[0]);
  }

  /** Where USE leads: a context's tables are there. */
  @Override
  public String[] defaultNamespace() {
    return namespaceExists(DEFAULT) ? DEFAULT : new String[0];
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
    return contextOf(name);
  }

  /** As {@link #live}, of any catalog that the session of this thread has. */
  static String contextOf(String catalog) {
    String connected = ConnectContext.of(catalog);
    return connected == null ? Catalogs.contextOf(catalog) : connected;
  }

  private String requireLive() {
    String live = live();
    if (live == null) {
      throw Planners.failed("ClosedError", "the session context of the catalog '" + name + "' is closed");
    }
    return live;
  }

  private ObjectNode question(String[] namespace) {
    ObjectNode question = Planners.JSON.createObjectNode().put(Words.CATALOG, name);
    ArrayNode parts = question.putArray(Words.NAMESPACE);
    for (String part : namespace) {
      parts.add(part);
    }
    return question;
  }

  /** CREATE TABLE, and how a Spark Connect client registers a table with the process beside the server. */
  @Override
  @SuppressWarnings("deprecation") // the newer method of later Sparks calls this one
  public Table createTable(
      Identifier ident, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    if (!ConnectContext.plansBesideServer(name)) {
      return create(ident, columns, partitions, properties);
    }
    if (!properties.containsKey(PROVIDER) || !ident.name().startsWith(REGISTERED)) {
      throw notFromSql();
    }
    byte[] pickled = SessionArtifact.bytes(properties.get(PROVIDER));
    Planners.ask(live(), Words.ADD_TABLE, Map.of(Words.TABLE, Base64.getEncoder().encodeToString(pickled)));
    try {
      return loadTable(Identifier.of(ident.namespace(), ident.name().substring(REGISTERED.length())));
    } catch (NoSuchTableException e) {
      throw new IllegalStateException(e);
    }
  }

  private Table create(Identifier ident, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    ObjectNode question = question(ident.namespace()).put(Words.TABLE, ident.name());
    question.put(Words.COLUMNS, CatalogV2Util.v2ColumnsToStructType(columns).toDDL());
    question.put(Words.PARTITIONS, partitions.length);
    Map<String, String> said = new HashMap<>(properties);
    said.remove(PROP_PROVIDER, SQLConf.get().defaultDataSourceName()); // which saveAsTable says where nobody said one
    question.set(Words.OPTIONS, Planners.JSON.valueToTree(said));
    String live = requireLive();
    return HeadraceTable.held(live, Planners.ask(live, Words.CREATE_TABLE, question));
  }

  @Override
  public Table alterTable(Identifier ident, TableChange... changes) {
    throw notFromSql();
  }

  /** Spark drops what exists. */
  @Override
  public boolean tableExists(Identifier ident) {
    try {
      return ident.name().equals(CONTEXT) || load(ident, question(ident.namespace()), false) != null;
    } catch (NoSuchTableException e) {
      return false;
    }
  }

  @Override
  public boolean dropTable(Identifier ident) {
    if (!ConnectContext.plansBesideServer(name)) {
      ObjectNode question = question(ident.namespace()).put(Words.TABLE, ident.name());
      return Planners.ask(requireLive(), Words.REMOVE_TABLE, question).get(Words.EXISTS).asBoolean();
    }
    if (ident.name().equals(CONTEXT)) {
      Planners.unregister(live());
    } else {
      Planners.ask(live(), Words.DROP_TABLE, Map.of(Words.TABLE, ident.name()));
    }
    return true;
  }

  /** REFRESH TABLE, by either name, and what Spark does before it drops a table. */
  @Override
  public void invalidateTable(Identifier ident) {
    String live = live();
    if (live != null && !ident.name().equals(CONTEXT)) {
      Planners.ask(live, Words.REFRESH_TABLE, question(ident.namespace()).put(Words.TABLE, ident.name()));
    }
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    throw notFromSql();
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata) {
    throw notFromSql();
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw notFromSql();
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) {
    throw notFromSql();
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

  private RuntimeException notFromSql() {
    return Planners.failed(
        "WriteError",
        "SQL does not alter or comment on what the catalog '" + name + "' has, and makes no schemas in it: columns and"
            + " schemas are what Python says (ctx.register_table(..., replace=True), or the CatalogProvider and"
            + " ctx.refresh_catalog)");
  }
}
