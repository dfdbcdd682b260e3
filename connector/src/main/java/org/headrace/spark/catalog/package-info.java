/** The catalog that shows Spark the tables registered in Python; driver JVM. */
package org.headrace.spark.catalog;
