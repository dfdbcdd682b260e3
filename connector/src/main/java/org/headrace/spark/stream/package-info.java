/** Tables that grow, read as streams: offsets are asked of Python, each range is planned as a scan; driver JVM. */
package org.headrace.spark.stream;
