/** Spark's columns over Arrow memory, without copying; executor JVM. */
package org.headrace.spark.vectors;
