package org.headrace.spark.planner;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.headrace.spark.HeadraceException;

/** The live Python planners of this driver JVM, one per session context, and how to ask them. */
public final class Planners {
  public static final ObjectMapper JSON = new ObjectMapper(factory());
  private static final Map<String, Planner> LIVE = new ConcurrentHashMap<>();
  private static final Set<String> REMOTE = ConcurrentHashMap.newKeySet();

  /**
   * Py4J opens a connection, with a thread on the Python side, for every JVM thread that calls Python, and keeps it
   * when that thread ends. So all calls are made by these threads, which never end: as many as ever call at once.
   */
  private static final ExecutorService CALLERS =
      new ThreadPoolExecutor(
          0,
          Integer.MAX_VALUE,
          Long.MAX_VALUE,
          TimeUnit.NANOSECONDS,
          new SynchronousQueue<>(),
          runnable -> {
            Thread thread = new Thread(runnable, "headrace-planner");
            thread.setDaemon(true);
            return thread;
          });

  private Planners() {}

  /** A pickled plan is one string of the answer, however long it is; of itself Jackson reads 20 million characters. */
  private static JsonFactory factory() {
    StreamReadConstraints anyLength = StreamReadConstraints.builder().maxStringLength(Integer.MAX_VALUE).build();
    return JsonFactory.builder().streamReadConstraints(anyLength).build();
  }

  /** Called from Python when a session context opens. */
  public static void register(String context, Planner planner) {
    LIVE.put(context, (operation, question) -> call(() -> planner.call(operation, question)));
  }

  /** For a context of a Spark Connect session, by a name that no other session has: Py4J does not lead to its process. */
  public static void connect(String context, Supplier<Planner> remote) {
    LIVE.computeIfAbsent(context, unknown -> remote.get());
    REMOTE.add(context);
  }

  /** Called from Python when a session context closes. */
  public static void unregister(String context) {
    LIVE.remove(context);
  }

  /** Asks a context's planner; its failures are thrown as AnalysisExceptions, caused by a {@link HeadraceException}. */
  public static JsonNode ask(String context, String operation, Object payload) {
    Planner planner = LIVE.get(context);
    if (planner == null) {
      throw failed(
          "ClosedError",
          "the Headrace session context behind this table is closed; register the table again in a live one");
    }
    JsonNode answer;
    try {
      String question = JSON.writeValueAsString(payload);
      answer = JSON.readTree(planner.call(operation, question));
    } catch (HeadraceException e) {
      throw unchecked(e.whilePlanning());
    } catch (JsonProcessingException e) {
      throw failed("Python answered '" + operation + "' with what is not JSON: " + e.getMessage());
    }
    JsonNode failure = answer.get("failure");
    if (failure != null) {
      throw unchecked(HeadraceException.from(failure).whilePlanning());
    }
    return answer;
  }

  private static String call(Callable<String> question) {
    Future<String> answer = CALLERS.submit(question);
    try {
      return answer.get();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw failed("the query was cancelled while its provider planned");
    } catch (ExecutionException e) {
      throw e.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(e.getCause());
    }
  }

  private static RuntimeException failed(String message) {
    return failed("HeadraceError", message);
  }

  /** Throws what fails while Spark plans; {@code error} names a class of headrace.errors. */
  public static RuntimeException failed(String error, String message) {
    return unchecked(HeadraceException.of(error, null, message).whilePlanning());
  }

  /** Throws {@code error}, which Java's compiler would have us declare wherever Spark's interfaces declare nothing. */
  @SuppressWarnings("unchecked")
  private static <E extends Exception> RuntimeException unchecked(Exception error) throws E {
    throw (E) error;
  }

  /** Whether the context is of a Spark Connect session. */
  public static boolean isRemote(String context) {
    return REMOTE.contains(context);
  }

  public static boolean isLive(String context) {
    return LIVE.containsKey(context);
  }
}
