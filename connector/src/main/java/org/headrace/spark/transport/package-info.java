/**
 * Connections to the Python processes that produce partitions or take results, and the frames on them; executor
 * JVM.
 */
package org.headrace.spark.transport;
