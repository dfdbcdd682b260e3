/** Writing: Spark's write interfaces, whose rows go to code in Python; driver JVM, and executor JVM for its writers. */
package org.headrace.spark.write;
