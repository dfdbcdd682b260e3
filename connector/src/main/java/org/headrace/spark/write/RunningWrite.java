package org.headrace.spark.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.planner.Words;
import org.headrace.spark.transport.PartitionOrigin;

/**
 * The JVM's end of one write while its statement runs: an id, under which Python keeps the plan; driver JVM, one thread.
 *
 * <p>Begun once, then committed or aborted, or both: an abort follows a commit that raised. What ends it is never
 * interrupted: a cancelled statement would not know whether it was published.
 */
final class RunningWrite {
  private final WriteTarget target;
  private final ObjectNode question;
  private final Published published;
  private final String id = UUID.randomUUID().toString();

  /** {@code question} is what Python is asked to begin, but for the id, the epoch and the number of tasks. */
  RunningWrite(WriteTarget target, ObjectNode question, Published published) {
    this.target = target;
    this.question = question;
    this.published = published;
  }

  /** Has Python arrange the write, and returns what makes the writers of its tasks. {@code epoch} may be null. */
  HeadraceWriterFactory begin(int partitions, Long epoch) {
    ObjectNode begin = question.deepCopy().put(Words.WRITE, id).put(Words.EPOCH, epoch).put(Words.PARTITIONS, partitions);
    JsonNode plan = Planners.tell(target.context(), Words.BEGIN_WRITE, begin);
    published.begin(plan.get(Words.DESCRIPTION).asText());
    return new HeadraceWriterFactory(
        PartitionOrigin.of(plan, target.name()), target.schema(), Planners.isRemote(target.context()));
  }

  void commit(WriterCommitMessage[] messages) {
    JsonNode files = Planners.tell(target.context(), Words.COMMIT_WRITE, ending(messages)).path(Words.FILES);
    if (files.isInt()) {
      published.commit(files.asInt());
    }
  }

  /** Never throws: who aborts has an error already, and that is the one to tell. */
  void abort(WriterCommitMessage[] messages) {
    try {
      Planners.tell(target.context(), Words.ABORT_WRITE, ending(messages));
    } catch (RuntimeException e) {
      // Python is gone, or its context has closed: it ends there what it had begun.
    }
  }

  private ObjectNode ending(WriterCommitMessage[] messages) {
    ObjectNode ending = Planners.JSON.createObjectNode().put(Words.WRITE, id);
    ArrayNode texts = ending.putArray(Words.MESSAGES);
    for (WriterCommitMessage message : messages) {
      byte[] told = message instanceof PythonWriterCommitMessage own ? own.pickledMessage() : null;
      texts.add(told == null ? null : new String(told, StandardCharsets.UTF_8));
    }
    return ending;
  }
}
