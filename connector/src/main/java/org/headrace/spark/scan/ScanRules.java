package org.headrace.spark.scan;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import scala.jdk.javaapi.CollectionConverters;

/** The optimizer rules of a session with Headrace's tables; driver JVM. */
public final class ScanRules {
  private ScanRules() {}

  /** Adds the rules to a session, once; called from Python. */
  public static void install(SparkSession session) {
    List<Rule<LogicalPlan>> all =
        new ArrayList<>(CollectionConverters.asJava(session.experimental().extraOptimizations()));
    for (Rule<LogicalPlan> rule : List.of(new NestedFiltersRule(), new WithheldKeysRule())) {
      if (all.stream().noneMatch(present -> present.getClass() == rule.getClass())) {
        all.add(rule);
      }
    }
    session.experimental().extraOptimizations_$eq(CollectionConverters.asScala(all).toList());
  }
}
