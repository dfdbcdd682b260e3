/** The way of a query's rows back to the caller in Python; driver JVM (the job) and executor JVM (its tasks). */
package org.headrace.spark.results;
