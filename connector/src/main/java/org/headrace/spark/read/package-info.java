/**
 * Reading one partition of a planned scan as columnar batches; executor JVM, except that the driver makes the
 * factory.
 */
package org.headrace.spark.read;
