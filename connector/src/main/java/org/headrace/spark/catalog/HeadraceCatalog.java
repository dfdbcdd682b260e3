package org.headrace.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.scan.HashFunction;
import org.headrace.spark.transport.RemotePlanner;

/** The catalog of one session context: its tables are the ones registered in Python; driver JVM. */
public final class HeadraceCatalog implements TableCatalog, FunctionCatalog {
  /** The hash of the pickled provider. */
  private static final String PROVIDER = "headrace.provider";

  private String name;
  private String context;
  private boolean plansHere;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    this.context = options.get("context");
    if (options.containsKey("planner")) {
      Planners.connect(context, () -> new RemotePlanner(SessionArtifact.json(options.get("planner"))));
    }
    this.plansHere = options.containsKey("archive");
    if (plansHere) {
      SparkContext spark = SparkSession.active().sparkContext();
      Planners.connect(context, () -> new PlannerProcess(spark, options.get("session"), options.get("archive")));
    }
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Table loadTable(Identifier ident) throws NoSuchTableException {
    if (ident.namespace().length != 0 || !Planners.isLive(context)) {
      throw new NoSuchTableException(ident);
    }
    JsonNode answer = Planners.ask(context, "load", Map.of("table", ident.name()));
    if (!answer.path("exists").asBoolean()) {
      throw new NoSuchTableException(ident);
    }
    StructType schema = (StructType) DataType.fromJson(answer.get("schema").toString());
    return new HeadraceTable(context, answer.get("name").asText(), answer.get("table").asText(), schema);
  }

  @Override
  public Identifier[] listTables(String[] namespace) {
    List<Identifier> tables = new ArrayList<>();
    Planners.ask(context, "list", Map.of())
        .path("tables")
        .forEach(table -> tables.add(Identifier.of(new String[0], table.asText())));
    return tables.toArray(new Identifier[0]);
  }

  /** How a Spark Connect client registers a table with the process beside the server. */
  @Override
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
        "Headrace tables are registered and deregistered in Python (SessionContext.register_table)");
  }
}
