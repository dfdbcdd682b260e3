package org.headrace.spark.transport;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import java.util.Properties;
import org.apache.spark.SparkFiles;
import org.apache.spark.TaskContext;

/** What code in a Python worker may ask PySpark's TaskContext and SparkFiles for; executor JVM. */
final class TaskFacts {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Those of the last task: all tasks of a stage have the same, every setting of the session among them. */
  private static volatile Written lastProperties = new Written(new Properties(), "{}");

  private record Written(Properties properties, String json) {}

  private TaskFacts() {}

  /** Of the task of this thread; nothing where there is none. */
  static byte[] json() {
    TaskContext task = TaskContext.get();
    if (task == null) {
      return new byte[0];
    }
    ObjectNode facts = JSON.createObjectNode();
    facts.put("stage", task.stageId()).put("partition", task.partitionId()).put("attempt", task.attemptNumber());
    facts.put("task_attempt", task.taskAttemptId()).put("cpus", task.cpus());
    facts.put("files", SparkFiles.getRootDirectory());
    ObjectNode resources = facts.putObject("resources");
    task.resourcesJMap().forEach((name, held) -> resources.putPOJO(name, held.addresses()));
    try {
      facts.putRawValue("properties", new RawValue(json(task.getLocalProperties())));
      return JSON.writeValueAsBytes(facts);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e); // numbers and texts can always be written
    }
  }

  private static String json(Properties properties) throws JsonProcessingException {
    Written last = lastProperties;
    if (!last.properties.equals(properties)) {
      Properties copy = (Properties) properties.clone();
      ObjectNode written = JSON.createObjectNode();
      copy.stringPropertyNames().forEach(name -> written.put(name, copy.getProperty(name)));
      last = new Written(copy, JSON.writeValueAsString(written));
      lastProperties = last;
    }
    return last.json;
  }
}
