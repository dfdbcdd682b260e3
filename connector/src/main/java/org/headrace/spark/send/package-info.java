/** Sending the rows of a task to Python, as frames: a query's result, and what is written to a table; executor JVM. */
package org.headrace.spark.send;
