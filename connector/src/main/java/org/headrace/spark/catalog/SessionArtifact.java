package org.headrace.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.storage.BlockData;
import org.apache.spark.storage.BlockManager;
import org.apache.spark.storage.CacheId;
import org.headrace.spark.planner.Planners;
import scala.Option;

/**
 * What is of one Spark Connect session alone, whatever other clients of the server know of it; driver JVM.
 *
 * <p>The server tells sessions apart by an id that no client chooses. What a client sent, which no option, plan or log
 * may hold, is found by it and a hash. Spark keeps it in the server's block manager, as it keeps local relations, until
 * the session ends.
 */
final class SessionArtifact {
  static final String NOT_OF_THIS_SESSION =
      "this Spark Connect session does not hold what the planner of that session context is asked with: the context is"
          + " of another session, or the server has lost it; make a new SessionContext in this one";

  private SessionArtifact() {}

  /** A session context of this session: others with the same id, of other sessions, are others. */
  static String owned(String context) {
    return session() + "/" + context;
  }

  private static String session() {
    return ((org.apache.spark.sql.classic.SparkSession) SparkSession.active()).sessionUUID();
  }

  static byte[] bytes(String hash) {
    CacheId id = new CacheId(session(), hash);
    BlockManager blocks = SparkEnv.get().blockManager();
    Option<BlockData> data = blocks.getLocalBytes(id);
    if (data.isEmpty()) {
      throw Planners.failed("HeadraceError", NOT_OF_THIS_SESSION);
    }
    try (InputStream content = data.get().toInputStream()) {
      return content.readAllBytes();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } finally {
      blocks.releaseLock(id, Option.empty());
    }
  }

  static JsonNode json(String hash) {
    try {
      return Planners.JSON.readTree(bytes(hash));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
