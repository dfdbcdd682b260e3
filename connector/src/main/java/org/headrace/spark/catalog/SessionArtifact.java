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
import org.headrace.spark.HeadraceException;
import org.headrace.spark.planner.Planners;
import scala.Option;

/**
 * What a Spark Connect client sent for its session alone, by its hash: what no option, plan or log may hold; driver JVM.
 *
 * <p>Spark keeps it in the block manager of the server, as it keeps local relations, until the session ends.
 */
final class SessionArtifact {
  private SessionArtifact() {}

  static byte[] bytes(String hash) {
    String session = ((org.apache.spark.sql.classic.SparkSession) SparkSession.active()).sessionUUID();
    CacheId id = new CacheId(session, hash);
    BlockManager blocks = SparkEnv.get().blockManager();
    Option<BlockData> data = blocks.getLocalBytes(id);
    if (data.isEmpty()) {
      throw HeadraceException.transport(
          null, "the Spark Connect session has lost what the client sent it; make a new SessionContext");
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
