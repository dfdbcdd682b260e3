package org.headrace.spark.transport;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Properties;
import org.apache.spark.TaskContext;
import org.headrace.spark.Versions;

/**
 * What code in a Python worker may ask PySpark's TaskContext and SparkFiles for, as two lines of JSON: the task's own facts,
 * and its properties, which are the same, byte by byte, for all tasks of a stage; executor JVM.
 */
final class TaskFacts {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Those of the last task: every setting of the session is among them. */
  private static volatile Written lastProperties = new Written(new Properties(), new byte[] {'{', '}'});

  private record Written(Properties properties, byte[] json) {}

  private TaskFacts() {}

  /** Of the task of this thread, nothing where there is none; {@code files} is where those are that were added. */
  static byte[] json(String files) {
    TaskContext task = TaskContext.get();
    if (task == null) {
      return new byte[0];
    }
    try {
      // Written by hand, as this is done for every partition: numbers, and what Jackson has escaped.
      String facts =
          "{\"stage\":" + task.stageId() + ",\"partition\":" + task.partitionId()
              + ",\"attempt\":" + task.attemptNumber() + ",\"task_attempt\":" + task.taskAttemptId()
              + ",\"cpus\":" + Versions.cpus(task) + ",\"files\":" + JSON.writeValueAsString(files)
              + ",\"resources\":" + resources(task) + "}\n";
      byte[] own = facts.getBytes(StandardCharsets.UTF_8);
      byte[] properties = json(task.getLocalProperties());
      byte[] both = Arrays.copyOf(own, own.length + properties.length);
      System.arraycopy(properties, 0, both, own.length, properties.length);
      return both;
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e); // numbers and texts can always be written
    }
  }

  private static String resources(TaskContext task) throws JsonProcessingException {
    if (task.resourcesJMap().isEmpty()) {
      return "{}";
    }
    ObjectNode resources = JSON.createObjectNode();
    task.resourcesJMap().forEach((name, held) -> resources.putPOJO(name, held.addresses()));
    return JSON.writeValueAsString(resources);
  }

  private static byte[] json(Properties properties) throws JsonProcessingException {
    Written last = lastProperties;
    if (!last.properties.equals(properties)) {
      Properties copy = (Properties) properties.clone();
      ObjectNode written = JSON.createObjectNode();
      copy.stringPropertyNames().forEach(name -> written.put(name, copy.getProperty(name)));
      last = new Written(copy, JSON.writeValueAsBytes(written));
      lastProperties = last;
    }
    return last.json;
  }
}
