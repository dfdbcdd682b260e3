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

  /** Adds the rules of every scan, and others, to a session, each once. */
  public static void install(SparkSession session, List<Rule<LogicalPlan>> others) {
    List<Rule<LogicalPlan>> rules =
        new ArrayList<>(
            List.of(
                new RecursionRule(),
                new NestedFiltersRule(),
                new WithheldKeysRule(),
                new GroupedPromisesRule(),
                new DistinctLiteralRule()));
    rules.addAll(others);
    synchronized (ScanRules.class) { // two threads may load catalogs of one session
      List<Rule<LogicalPlan>> all =
          new ArrayList<>(CollectionConverters.asJava(session.experimental().extraOptimizations()));
      rules.removeIf(rule -> all.stream().anyMatch(present -> present.getClass() == rule.getClass()));
      all.addAll(rules);
      session.experimental().extraOptimizations_$eq(CollectionConverters.asScala(all).toList());
    }
  }
}
