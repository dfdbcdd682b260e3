package org.headrace.spark.catalog;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedArgumentExpression;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.planner.Words;
import org.headrace.spark.scan.PredicateJson;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** Table functions of a session that Python answers: each call in a query becomes a table of its own; driver JVM. */
final class TableFunctions {
  private static final String INSTALLED = "table function ";

  private TableFunctions() {}

  /** Has the context's functions in its session, these and no others. Throws where Spark has another of such a name. */
  static void agree(String context, List<String> names) {
    for (String installed : Planners.installed(context)) {
      if (installed.startsWith(INSTALLED) && !names.contains(installed.substring(INSTALLED.length()))) {
        Planners.uninstall(context, installed);
      }
    }
    for (String name : names) {
      Planners.install(context, INSTALLED + name, () -> register(SparkSession.active(), context, name));
    }
  }

  private static Runnable register(SparkSession session, String context, String name) {
    if (session.sessionState().catalog().lookupBuiltinOrTempTableFunction(name).isDefined()) {
      throw Planners.failed(
          "TableExistsError", "Spark has a table function '" + name + "' already; choose another name");
    }
    session
        .sessionState()
        .tableFunctionRegistry()
        .createOrReplaceTempFunction(name, new Builder(context, name), "scala_udf");
    return () -> session.sessionState().catalog().dropTempFunction(name, true);
  }

  /** Called by Spark at every analysis of a query that calls the function. */
  private static final class Builder extends AbstractFunction1<Seq<Expression>, LogicalPlan> {
    private final String context;
    private final String name;

    Builder(String context, String name) {
      this.context = context;
      this.name = name;
    }

    @Override
    public LogicalPlan apply(Seq<Expression> arguments) {
      ObjectNode call = Planners.JSON.createObjectNode().put(Words.FUNCTION, name);
      ArrayNode positional = call.putArray(Words.ARGS);
      ObjectNode named = call.putObject(Words.KWARGS);
      for (Expression argument : CollectionConverters.asJava(arguments)) {
        if (argument instanceof NamedArgumentExpression keyword) {
          named.set(keyword.key(), constant(keyword.value()));
        } else {
          positional.add(constant(argument));
        }
      }
      HeadraceTable table = HeadraceTable.held(context, Planners.ask(context, Words.TABLE_FUNCTION, call));
      return DataSourceV2Relation.create(table, Option.empty(), Option.empty());
    }

    private ObjectNode constant(Expression argument) {
      Expression plain = argument;
      while (plain instanceof RuntimeReplaceable replaceable) {
        plain = replaceable.replacement();
      }
      if (!plain.foldable()) {
        throw refused(argument, "is no constant");
      }
      ObjectNode json = PredicateJson.of(new LiteralValue<>(plain.eval(null), plain.dataType()));
      if (json == null) {
        throw refused(argument, "has the type " + plain.dataType().catalogString() + ", which is not passed to Python");
      }
      return json;
    }

    private HeadraceException refused(Expression argument, String why) {
      return HeadraceException.of(
          "PlanError", null, "the argument " + argument.sql() + " of the table function '" + name + "' " + why);
    }
  }
}
