/** What only push tables need: that Spark scans them once, and that producers learn of a query's end; driver JVM. */
package org.headrace.spark.push;
