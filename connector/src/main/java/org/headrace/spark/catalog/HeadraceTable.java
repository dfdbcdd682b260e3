package org.headrace.spark.catalog;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.headrace.spark.scan.HeadraceScanBuilder;

/** One registered table as Spark sees it; driver JVM. */
final class HeadraceTable implements SupportsRead {
  private final String context;
  private final String name;
  private final String id;
  private final StructType schema;

  HeadraceTable(String context, String name, String id, StructType schema) {
    this.context = context;
    this.name = name;
    this.id = id;
    this.schema = schema;
  }

  @Override
  public String name() {
    return name;
  }

  /** Tells Spark when a name was registered anew with another provider. */
  @Override
  public String id() {
    return id;
  }

  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new HeadraceScanBuilder(context, id, name, schema);
  }
}
