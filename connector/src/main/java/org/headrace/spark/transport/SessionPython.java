package org.headrace.spark.transport;

import org.apache.spark.JobArtifactSet;
import org.apache.spark.JobArtifactState;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import scala.Option;

/** How Python runs for a Spark Connect session, of which its client knows nothing; driver JVM. */
public final class SessionPython {
  private SessionPython() {}

  /** As the server chooses it for Python UDFs, unless the application was given one. */
  public static String executable() {
    SparkConf conf = SparkEnv.get().conf();
    String found = conf.get("spark.pyspark.python", System.getenv("PYSPARK_PYTHON"));
    found = found == null ? System.getenv("PYSPARK_DRIVER_PYTHON") : found;
    return found == null ? "python3" : found;
  }

  /** Where a file that the client added is found below {@code SparkFiles.getRootDirectory()}; only known while planning. */
  public static String file(String name) {
    Option<JobArtifactState> session = JobArtifactSet.getCurrentJobArtifactState();
    return session.isEmpty() ? name : session.get().uuid() + "/" + name;
  }
}
