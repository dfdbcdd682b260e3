package org.headrace.spark.planner;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.BinaryOperator;
import java.util.function.Supplier;
import org.headrace.spark.HeadraceException;

/** The live session contexts of this driver JVM: how to ask their Python planners, and what was installed for them. */
public final class Planners {
  public static final ObjectMapper JSON = new ObjectMapper(factory());
  private static final Map<String, Context> LIVE = new ConcurrentHashMap<>();

  /** The threads of {@link #tell}: who waits for its answer is not interrupted, and a thread that asks can be. */
  private static final ExecutorService TELLERS =
      Executors.newCachedThreadPool(
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

  /** Makes the planner known under the name of its context, which no other has, unless it is. */
  public static void connect(String context, Planner planner, boolean isRemote) {
    LIVE.putIfAbsent(context, new Context(planner, isRemote));
  }

  /** Called when a session context closes, from Python, or when its process is gone: what was installed for it goes. */
  public static void unregister(String context) {
    Context gone = LIVE.remove(context);
    if (gone != null) {
      gone.leave();
    }
  }

  /** Installs something for a live context, once. {@code install} returns how it is taken out when the context leaves. */
  public static void install(String context, String what, Supplier<Runnable> install) {
    Context live = LIVE.get(context);
    if (live != null) {
      live.install(what, install);
    }
  }

  /** Takes out what was installed under this name, if anything was. */
  public static void uninstall(String context, String what) {
    Context live = LIVE.get(context);
    if (live != null) {
      live.uninstall(what);
    }
  }

  /** The names of what is installed for a context. */
  public static Set<String> installed(String context) {
    Context live = LIVE.get(context);
    return live == null ? Set.of() : live.installed();
  }

  /** Asks a context's planner; its failures are thrown as AnalysisExceptions, caused by a {@link HeadraceException}. */
  public static JsonNode ask(String context, String operation, Object payload) {
    try {
      return answer(live(context).planner::call, operation, payload);
    } catch (HeadraceException e) {
      throw failed(e);
    }
  }

  /**
   * As {@link #ask}, while a statement runs: failures are thrown as those of tasks are, and who waits for the answer is
   * not interrupted. What is asked for has been done when this returns, or has failed.
   */
  public static JsonNode tell(String context, String operation, Object payload) {
    Future<JsonNode> answer = TELLERS.submit(() -> answer(live(context).planner::tell, operation, payload));
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return answer.get();
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    } catch (ExecutionException e) {
      if (!(e.getCause() instanceof HeadraceException own)) {
        throw new IllegalStateException(e.getCause());
      }
      throw unchecked(isRemote(context) ? own.ofSpark() : own.inTask());
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /**
   * Asks on a thread that may be a streaming query's own. Where that query is stopped meanwhile, Spark takes what is raised
   * for a failure of the query, unless it says that it was interrupted.
   */
  public static <T> T interruptible(Supplier<T> question) {
    try {
      return question.get();
    } catch (Exception e) {
      if (e.getCause() instanceof HeadraceException own && own.isOf("ScanEndedError")) {
        InterruptedIOException interrupted = new InterruptedIOException(own.getMessage());
        interrupted.initCause(e);
        throw new UncheckedIOException(interrupted);
      }
      throw e;
    }
  }

  private static Context live(String context) {
    Context live = LIVE.get(context);
    if (live == null) {
      throw closed();
    }
    return live;
  }

  /** What a question fails with whose context has left. */
  public static HeadraceException closed() {
    return HeadraceException.of(
        "ClosedError",
        null,
        "the Headrace session context behind this table is closed; register the table again in a live one");
  }

  private static JsonNode answer(BinaryOperator<String> planner, String operation, Object payload) {
    JsonNode answer;
    try {
      String question = JSON.writeValueAsString(payload);
      answer = JSON.readTree(planner.apply(operation, question));
    } catch (JsonProcessingException e) {
      throw HeadraceException.of(
          "HeadraceError", null, "Python answered '" + operation + "' with what is not JSON: " + e.getMessage());
    }
    JsonNode failure = answer.get(Words.FAILURE);
    if (failure != null) {
      throw HeadraceException.from(failure);
    }
    return answer;
  }

  /** Throws what fails while Spark plans; {@code error} names a class of headrace.errors. */
  public static RuntimeException failed(String error, String message) {
    return failed(HeadraceException.of(error, null, message));
  }

  /** Throws {@code error} as what fails while Spark plans. */
  public static RuntimeException failed(HeadraceException error) {
    return unchecked(error.whilePlanning());
  }

  /** Throws {@code error}, which Java's compiler would have us declare wherever Spark's interfaces declare nothing. */
  public static RuntimeException unchecked(Exception error) {
    return Planners.<RuntimeException>asAny(error);
  }

  @SuppressWarnings("unchecked")
  private static <E extends Exception> RuntimeException asAny(Exception error) throws E {
    throw (E) error;
  }

  /** Whether the context is of a Spark Connect session. */
  public static boolean isRemote(String context) {
    Context live = LIVE.get(context);
    return live != null && live.isRemote;
  }

  public static boolean isLive(String context) {
    return LIVE.containsKey(context);
  }

  private static final class Context {
    final Planner planner;
    final boolean isRemote;
    private final Map<String, Runnable> removals = new LinkedHashMap<>();
    private boolean left;

    Context(Planner planner, boolean isRemote) {
      this.planner = planner;
      this.isRemote = isRemote;
    }

    synchronized void install(String what, Supplier<Runnable> install) {
      if (!left && !removals.containsKey(what)) {
        removals.put(what, install.get());
      }
    }

    synchronized void uninstall(String what) {
      Runnable removal = removals.remove(what);
      if (removal != null) {
        removal.run();
      }
    }

    synchronized Set<String> installed() {
      return Set.copyOf(removals.keySet());
    }

    synchronized void leave() {
      left = true;
      removals.values().forEach(Runnable::run);
      removals.clear();
    }
  }
}
