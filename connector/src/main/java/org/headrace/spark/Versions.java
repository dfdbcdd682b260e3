package org.headrace.spark;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.QueryContext;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.PythonException;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.v2.PushDownUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * All that differs between Spark 4.0, 4.1, 4.2 and 4.3, so that one jar serves them; driver and executor JVM.
 *
 * <p>The jar is compiled against 4.0: what only a later version has is looked up by name, here and nowhere else.
 */
public final class Versions {
  private static final String BUCKETING = "spark.sql.sources.v2.bucketing.";

  /** From 4.2. */
  private static final Class<?> INTERRUPT_LISTENER = classOrNull("org.apache.spark.util.TaskInterruptListener");
  private static final Method ADD_INTERRUPT_LISTENER =
      INTERRUPT_LISTENER == null ? null : method(TaskContext.class, "addTaskInterruptListener", INTERRUPT_LISTENER);

  /** Before 4.2 nobody tells a task that waits that it was killed, so it has to look now and then. */
  private static final long LOOK_MILLIS = 50;

  /** 5 parameters in 4.3, 4 before: schema, time zone, and switches that are all off for us. */
  private static final Method TO_ARROW_SCHEMA =
      Arrays.stream(ArrowUtils.class.getMethods())
          .filter(method -> method.getName().equals("toArrowSchema"))
          .max((one, other) -> Integer.compare(one.getParameterCount(), other.getParameterCount()))
          .orElseThrow();

  /** From 4.2: message, cause, condition, its parameters, context. Before, a PythonException has no condition. */
  private static final Constructor<?> PYTHON_EXCEPTION =
      Arrays.stream(PythonException.class.getConstructors())
          .filter(made -> made.getParameterCount() == 5 && made.getParameterTypes()[1] == Throwable.class)
          .findFirst()
          .orElse(null);

  /** From 4.3: whether a scan's estimates already reflect the filters that were pushed into it. */
  private static final boolean PUTS_FILTERS_BACK =
      Arrays.stream(SupportsReportStatistics.class.getMethods())
          .anyMatch(method -> method.getName().equals("reflectsFullyPushedDownFilters"));

  /** Builder and filters; later also fields of partitions, of which a builder of ours has none. */
  private static final Method PUSH_FILTERS =
      Arrays.stream(PushDownUtils.class.getMethods())
          .filter(method -> method.getName().equals("pushFilters"))
          .findFirst()
          .orElseThrow();

  /** From 4.1: what a builder is that can take in a join with another one. */
  private static final Class<?> JOINING =
      classOrNull("org.apache.spark.sql.connector.read.SupportsPushDownJoin");

  private static final String JOIN_PUSHDOWN = "spark.sql.optimizer.datasourceV2JoinPushdown";

  /** From 4.1, and only where this setting switches it on. */
  private static final Class<?> TIME = classOrNull("org.apache.spark.sql.types.TimeType");

  private static final String TIME_SETTING = "spark.sql.timeType.enabled";

  /** From 4.1. */
  private static final boolean KEEPS_LOGS = classOrNull("org.apache.spark.storage.PythonWorkerLogLine") != null;

  /** Whether what Python workers log is kept for {@code python_worker_logs()}. */
  private static final String LOGGING_SETTING = "spark.sql.pyspark.worker.logging.enabled";

  /** A recursive part of a query. 4.0 has the class too, but fails for any recursion. */
  private static final Class<?> RECURSION = classOrNull("org.apache.spark.sql.catalyst.plans.logical.UnionLoop");

  /** From 4.3: of a Python worker. */
  private static final Class<?> WORKER_HANDLE = classOrNull("org.apache.spark.api.python.PythonWorkerHandle");
  private static final Method IS_ALIVE = WORKER_HANDLE == null ? null : method(WORKER_HANDLE, "isAlive");

  /** What counts the rows that a task writes; private to Spark, and so far the same in all. */
  private static final Class<?> COUNTED_ROWS =
      classOrNull("org.apache.spark.sql.execution.datasources.v2.WritingSparkTask$IteratorWithMetrics");
  private static final Method COUNT = COUNTED_ROWS == null ? null : method(COUNTED_ROWS, "count");
  private static final Method SET_COUNT =
      COUNTED_ROWS == null ? null : method(COUNTED_ROWS, "count_$eq", long.class);

  private Versions() {}

  /** What Spark asks of a table from 4.1 on: an id that changes when the name is registered anew with other data. */
  public interface TableWithId {
    String id();
  }

  /** What Spark asks of a scan from 4.3 on: where it is false, Spark puts the pushed filters back above the scan. */
  public interface FilteredEstimates {
    boolean reflectsFullyPushedDownFilters();
  }

  /** What {@link #joining} asks of a builder, without the types that only later versions have. */
  public interface JoinTaker extends ScanBuilder {
    /** Whether a join with {@code other} is worth an offer. */
    boolean canJoin(JoinTaker other);

    /** Offers a join: {@code type} is a JoinType's name, each column comes with its name among the joined rows. */
    boolean pushJoin(
        JoinTaker other, String type, List<String[]> left, List<String[]> right, Predicate condition);
  }

  /** Whether this Spark, under this session's settings, offers joins. */
  public static boolean offersJoins() {
    return JOINING != null && isOn(JOIN_PUSHDOWN);
  }

  /** The builder, in a form that Spark offers joins to. Only where {@link #offersJoins}. */
  public static ScanBuilder joining(JoinTaker builder) {
    List<Class<?>> interfaces = new ArrayList<>(Arrays.asList(builder.getClass().getInterfaces()));
    interfaces.add(JOINING);
    return (ScanBuilder)
        Proxy.newProxyInstance(
            builder.getClass().getClassLoader(), interfaces.toArray(new Class<?>[0]), new Joining(builder));
  }

  private record Joining(JoinTaker builder) implements InvocationHandler {
    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
      switch (method.getName()) {
        case "equals":
          return proxy == arguments[0];
        case "isOtherSideCompatibleForJoin":
          JoinTaker candidate = builderOf(arguments[0]);
          return candidate != null && builder.canJoin(candidate);
        case "pushDownJoin":
          return builder.pushJoin(
              builderOf(arguments[0]),
              ((Enum<?>) arguments[1]).name(),
              columns((Object[]) arguments[2]),
              columns((Object[]) arguments[3]),
              (Predicate) arguments[4]);
        default:
          try {
            return method.invoke(builder, arguments);
          } catch (InvocationTargetException e) {
            throw e.getCause();
          }
      }
    }

    private static JoinTaker builderOf(Object proxy) {
      boolean ours = Proxy.isProxyClass(proxy.getClass()) && Proxy.getInvocationHandler(proxy) instanceof Joining;
      return ours ? ((Joining) Proxy.getInvocationHandler(proxy)).builder() : null;
    }

    /** Of Spark's ColumnWithAlias: a column, and its name in the joined rows, null where that is the same. */
    private static List<String[]> columns(Object[] columnsWithAlias) {
      List<String[]> columns = new ArrayList<>();
      try {
        for (Object column : columnsWithAlias) {
          String name = (String) column.getClass().getMethod("colName").invoke(column);
          String alias = (String) column.getClass().getMethod("alias").invoke(column);
          columns.add(new String[] {name, alias == null ? name : alias});
        }
      } catch (ReflectiveOperationException e) {
        throw unexpected(e);
      }
      return columns;
    }
  }

  /** Whether a type is TIME, of whatever precision: nanoseconds of the day. */
  public static boolean isTime(DataType type) {
    return TIME != null && TIME.isInstance(type);
  }

  /** Why columns of type TIME cannot be had in this session, and what to do; null where they can. */
  public static String whyNoTime() {
    if (TIME == null) {
      return "Spark has a TIME type from 4.1 on: cast it to a string, or to int64 microseconds";
    }
    return isOn(TIME_SETTING)
        ? null
        : "Spark's TIME type is off: switch it on with spark.conf.set('"
            + TIME_SETTING
            + "', 'true'), or cast the column to a string, or to int64 microseconds";
  }

  /** The session under whose name the logs of this query's Python workers are to be kept; null where they are not. */
  public static String sessionOfLogs() {
    Option<SparkSession> active = SparkSession.getActiveSession();
    return KEEPS_LOGS && active.isDefined() && isOn(LOGGING_SETTING) ? active.get().sessionUUID() : null;
  }

  /** Whether a node runs again and again what is below it. */
  public static boolean isRecursion(LogicalPlan node) {
    return RECURSION != null && RECURSION.isInstance(node);
  }

  private static boolean isOn(String setting) {
    return Boolean.parseBoolean(SQLConf.get().getConfString(setting, "false"));
  }

  /** Whether Spark, if asked to, puts a filter back above a scan that filters exactly; it looks for such ones. */
  public static boolean putsFiltersBack() {
    return PUTS_FILTERS_BACK;
  }

  /** Offers filters on {@code columns} to a builder, as Spark does for batches; returns what Spark has to apply itself. */
  @SuppressWarnings("unchecked")
  public static List<Expression> pushFilters(
      ScanBuilder builder, List<Expression> filters, Seq<? extends Attribute> columns) {
    Object[] arguments = new Object[PUSH_FILTERS.getParameterCount()];
    Arrays.fill(arguments, Option.empty());
    arguments[0] = builder;
    Seq<Expression> given = CollectionConverters.asScala(filters).toList();
    arguments[1] = DataSourceStrategy$.MODULE$.normalizeExprs(given, (Seq<Attribute>) columns);
    try {
      Tuple2<?, Seq<Expression>> pushed = (Tuple2<?, Seq<Expression>>) PUSH_FILTERS.invoke(null, arguments);
      return CollectionConverters.asJava(pushed._2());
    } catch (InvocationTargetException e) {
      throw Versions.<RuntimeException>unchecked(e.getCause()); // what Python answered
    } catch (ReflectiveOperationException e) {
      throw unexpected(e);
    }
  }

  /** The task's cores, as a whole number: PySpark's TaskContext has no other. 4.3 also counts parts of one. */
  @SuppressWarnings("deprecation")
  public static int cpus(TaskContext task) {
    return task.cpus();
  }

  /** Calls {@code action} when the task is killed; before 4.2 nothing does, see {@link #longestWaitMillis}. */
  public static void onInterrupt(TaskContext task, Runnable action) {
    if (INTERRUPT_LISTENER == null) {
      return;
    }
    Object listener =
        Proxy.newProxyInstance(
            INTERRUPT_LISTENER.getClassLoader(),
            new Class<?>[] {INTERRUPT_LISTENER},
            (proxy, method, arguments) -> {
              if (method.getDeclaringClass() == INTERRUPT_LISTENER) {
                action.run();
                return null;
              }
              return switch (method.getName()) {
                case "equals" -> proxy == arguments[0];
                case "hashCode" -> System.identityHashCode(proxy);
                default -> "Headrace's listener for a killed task";
              };
            });
    try {
      ADD_INTERRUPT_LISTENER.invoke(task, listener);
    } catch (ReflectiveOperationException e) {
      throw unexpected(e);
    }
  }

  /** How long a task may wait before it must look whether it was killed; 0 where it is told. */
  public static long longestWaitMillis() {
    return INTERRUPT_LISTENER == null ? LOOK_MILLIS : 0;
  }

  /** Has {@code more} rows counted than {@code rows} gave to its writer; from 4.3 on Spark's SQL tab shows the number. */
  public static void countRows(Iterator<?> rows, long more) {
    if (COUNTED_ROWS == null || !COUNTED_ROWS.isInstance(rows)) {
      return;
    }
    try {
      SET_COUNT.invoke(rows, (long) COUNT.invoke(rows) + more);
    } catch (ReflectiveOperationException e) {
      throw unexpected(e);
    }
  }

  /** The Arrow schema with which Spark's ArrowWriter writes rows of {@code type}. */
  public static Schema arrowSchema(StructType type, String timeZone) {
    Object[] arguments = new Object[TO_ARROW_SCHEMA.getParameterCount()];
    Arrays.fill(arguments, false);
    arguments[0] = type;
    arguments[1] = timeZone;
    try {
      return (Schema) TO_ARROW_SCHEMA.invoke(null, arguments);
    } catch (ReflectiveOperationException e) {
      throw unexpected(e);
    }
  }

  /** What PySpark raises as PythonException, with its condition and the text in two parts; null before 4.2. */
  static RuntimeException pythonException(String message, String traceback, Throwable cause) {
    if (PYTHON_EXCEPTION == null) {
      return null;
    }
    scala.collection.immutable.Map<String, String> parameters =
        new scala.collection.immutable.Map.Map2<>("msg", message, "traceback", traceback);
    Option<String> condition = Option.apply("PYTHON_EXCEPTION");
    try {
      return (RuntimeException)
          PYTHON_EXCEPTION.newInstance(
              message + ":\n" + traceback, cause, condition, parameters, new QueryContext[0]);
    } catch (ReflectiveOperationException e) {
      throw unexpected(e);
    }
  }

  /** Whether a Python worker lives. {@code handle} is a PythonWorkerHandle in 4.3, a ProcessHandle before. */
  public static boolean isAlive(Object handle) {
    if (handle instanceof ProcessHandle process) {
      return process.isAlive();
    }
    try {
      return (boolean) IS_ALIVE.invoke(handle);
    } catch (ReflectiveOperationException e) {
      throw unexpected(e);
    }
  }

  /**
   * The session's settings under which Python may have to keep a partitioning to itself, by their names in 4.3. One
   * that this Spark does not know has the value that is safe: silence costs a shuffle, a promise that Spark reads
   * differently costs right answers.
   */
  public static Map<String, Boolean> partitioningSettings() {
    Map<String, Boolean> settings = new LinkedHashMap<>();
    settings.put(BUCKETING + "enabled", setting(false, "enabled"));
    String subset = "allowKeysSubsetOfPartitionKeys.enabled";
    settings.put(BUCKETING + subset, setting(true, subset, "allowJoinKeysSubsetOfPartitionKeys.enabled"));
    for (String name : List.of("allowCompatibleTransforms.enabled", "shuffle.enabled")) {
      settings.put(BUCKETING + name, setting(true, name));
    }
    return settings;
  }

  private static boolean setting(boolean whenUnknown, String... names) {
    boolean known = false;
    for (String name : names) {
      try {
        if (Boolean.parseBoolean(SQLConf.get().getConfString(BUCKETING + name))) {
          return true;
        }
        known = true;
      } catch (NoSuchElementException e) { // SQL_CONF_NOT_FOUND
        continue;
      }
    }
    return !known && whenUnknown;
  }

  private static Method method(Class<?> type, String name, Class<?>... parameters) {
    try {
      return type.getMethod(name, parameters);
    } catch (ReflectiveOperationException e) {
      throw unexpected(e);
    }
  }

  private static Class<?> classOrNull(String name) {
    try {
      return Class.forName(name);
    } catch (ClassNotFoundException e) {
      return null;
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }

  /** Spark's own exceptions as they are; a lookup that failed means a Spark that nobody has tried. */
  private static RuntimeException unexpected(ReflectiveOperationException e) {
    if (e instanceof InvocationTargetException && e.getCause() instanceof RuntimeException own) {
      return own;
    }
    return new IllegalStateException("Headrace does not know this version of Spark: " + e, e);
  }
}
