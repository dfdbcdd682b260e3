/* Reads arrays, maps and structs; runs in the executor JVM. */
package org.headrace.spark.vectors;

import java.util.List;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;

/**
 * A column over the columns of its children. Not Spark's ArrowColumnVector: to copy an array, Spark reads all of its
 * values, nulls too, and for these that one throws.
 */
abstract class NestedColumn extends FlatColumn {
  private final ColumnVector[] children;

  private NestedColumn(FieldVector vector, DataType type, List<FieldVector> vectors, DataType... types) {
    super(vector, type);
    children = new ColumnVector[types.length];
    for (int i = 0; i < types.length; i++) {
      children[i] = ArrowColumns.of(vectors.get(i), types[i]);
    }
  }

  @Override
  public final ColumnVector getChild(int ordinal) {
    return children[ordinal];
  }

  /** A column of {@code type}; null where the vector's children are not those of the type. */
  static NestedColumn struct(FieldVector vector, DataType type) {
    List<FieldVector> vectors = vector.getChildrenFromFields();
    DataType[] types = null;
    if (type instanceof StructType struct) {
      types = new DataType[struct.length()];
      for (int i = 0; i < types.length; i++) {
        types[i] = struct.fields()[i].dataType();
      }
    } else if (type instanceof VariantType) {
      types = new DataType[] {DataTypes.BinaryType, DataTypes.BinaryType};
    }
    return types != null && types.length == vectors.size() ? new Structs(vector, type, vectors, types) : null;
  }

  static final class Structs extends NestedColumn {
    private Structs(FieldVector vector, DataType type, List<FieldVector> vectors, DataType... types) {
      super(vector, type, vectors, types);
    }
  }

  static final class Arrays extends NestedColumn {
    private final long offsets;

    Arrays(ListVector vector, ArrayType type) {
      super(vector, type, List.of(vector.getDataVector()), type.elementType());
      offsets = offsets(vector);
    }

    @Override
    public ColumnarArray getArray(int rowId) {
      if (isNullAt(rowId)) {
        return null;
      }
      int start = offset(offsets, rowId);
      return new ColumnarArray(getChild(0), start, offset(offsets, rowId + 1) - start);
    }
  }

  static final class Maps extends NestedColumn {
    private final long offsets;

    Maps(ListVector vector, MapType type) {
      super(vector, type, vector.getDataVector().getChildrenFromFields(), type.keyType(), type.valueType());
      offsets = offsets(vector);
    }

    @Override
    public ColumnarMap getMap(int rowId) {
      if (isNullAt(rowId)) {
        return null;
      }
      int start = offset(offsets, rowId);
      return new ColumnarMap(getChild(0), getChild(1), start, offset(offsets, rowId + 1) - start);
    }
  }

  private static long offsets(ListVector vector) {
    int count = vector.getValueCount();
    // An empty batch may come without its single offset.
    return address(vector, vector.getOffsetBuffer(), count == 0 ? 0 : (count + 1L) << 2);
  }

  private static int offset(long offsets, int index) {
    return Platform.getInt(null, offsets + ((long) index << 2));
  }
}
