/** The negotiation of one scan between Spark's planner and Python, and what came of it; driver JVM. */
package org.headrace.spark.scan;
