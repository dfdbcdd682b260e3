package org.headrace.spark.catalog;

import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsCatalogOptions;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.headrace.spark.planner.Planners;

/**
 * The format {@code headrace}: tables of Headrace's catalogs by the option {@code table}; driver JVM.
 *
 * <p>Spark asks for catalog and identifier where a batch is read or written, and for schema and table where a stream is,
 * or where a table or view is made USING the format. All find the same table.
 */
public final class HeadraceSource implements SupportsCatalogOptions, DataSourceRegister {
  static final String NAME = "headrace";

  @Override
  public String shortName() {
    return NAME;
  }

  @Override
  public String extractCatalog(CaseInsensitiveStringMap options) {
    return NamedTable.of(options).catalogInSession();
  }

  @Override
  public Identifier extractIdentifier(CaseInsensitiveStringMap options) {
    return NamedTable.of(options).identifier();
  }

  @Override
  public Optional<String> extractTimeTravelVersion(CaseInsensitiveStringMap options) {
    return Optional.ofNullable(options.get("versionAsOf"));
  }

  @Override
  public Optional<String> extractTimeTravelTimestamp(CaseInsensitiveStringMap options) {
    return Optional.ofNullable(options.get("timestampAsOf"));
  }

  /** What {@link #getTable} is given; the table has a schema of its own. */
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType();
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    try {
      return NamedTable.of(new CaseInsensitiveStringMap(properties)).load();
    } catch (Exception e) { // Spark's own, which Java does not see: also one that is no RuntimeException
      return new GoneTable(e);
    }
  }

  /** Why there is no table. DROP TABLE works on one that was made USING this format; whatever else is asked throws. */
  private record GoneTable(Exception why) implements SupportsRead, SupportsWrite {
    @Override
    public String name() {
      return NAME;
    }

    @Override
    @SuppressWarnings("deprecation")
    public StructType schema() {
      throw Planners.unchecked(why);
    }

    @Override
    public Column[] columns() {
      throw Planners.unchecked(why);
    }

    @Override
    public Set<TableCapability> capabilities() {
      throw Planners.unchecked(why);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      throw Planners.unchecked(why);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      throw Planners.unchecked(why);
    }
  }
}
