/** How the driver JVM asks the driver's Python process, the only calls from Java into Python; driver JVM. */
package org.headrace.spark.planner;
