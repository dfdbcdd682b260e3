package org.headrace.spark.transport;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.spark.api.python.PythonWorker;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.Place;
import org.headrace.spark.read.HeadracePartition;
import org.headrace.spark.read.HeadraceReaderFactory;
import scala.Option;

/**
 * The connector's side of a worker's connection, against workers that pause, die, stall, babble and are stopped at any
 * byte; run by tests with the path of golden.json, a seed and a count.
 *
 * <p>A worker is a real process, for the question whether it is alive, and a thread that plays its part on a real
 * socket. That stays open when the process dies: somebody else may hold it.
 */
public final class WorkerConnectionCheck {
  private static final Place PLACE = new Place("checked", 0);
  private static final WorkerPool POOL = new WorkerPool("python", scala.collection.immutable.Map$.MODULE$.empty());
  private static final int AT_A_TIME = 8;
  private static final int LOOK_MILLIS = 20;
  private static final int STALL_MILLIS = 2_500;
  private static final int GRACE_MILLIS = 300;
  private static final int PATIENCE_SECONDS = 60;
  private static final int ALL = Integer.MAX_VALUE;
  private static final int SILENCE_MILLIS = 10 * LOOK_MILLIS;
  private static final ExecutorService WORKERS = Executors.newCachedThreadPool(WorkerConnectionCheck::daemon);

  private enum Fate { WHOLE, SILENT_FOR_LONG, SILENT_UNTIL_STOPPED, DIES_AFTER_ALL, CLOSES, DIES, STALLS, BABBLES }

  /** The worker's fate after {@code cut} bytes, how many batches the JVM reads, and whether the worker heeds a STOP. */
  private record Script(Fate fate, int cut, int batches, boolean heedsStop) {}

  private static byte[] stream;
  private static long nonce;
  private static long allRows;
  private static final List<Integer> BOUNDARIES = new ArrayList<>();

  private WorkerConnectionCheck() {}

  public static void main(String[] args) throws Exception {
    PeerChannel.lookMillis = LOOK_MILLIS;
    PeerChannel.stallMillis = STALL_MILLIS;
    WorkerConnection.graceMillis = GRACE_MILLIS;
    JsonNode golden = new ObjectMapper().readTree(Files.readString(Path.of(args[0])));
    stream = FrameFuzz.stream(golden, "stream of columns as they are");
    ByteBuffer bytes = ByteBuffer.wrap(stream).order(ByteOrder.LITTLE_ENDIAN);
    nonce = bytes.getLong(16);
    for (int at = 0; at < stream.length; at += 24 + bytes.getInt(at + 4) + (int) bytes.getLong(at + 8)) {
      BOUNDARIES.add(at);
    }
    allRows = bytes.getLong(stream.length - Protocol.TOTALS_BYTES);
    long seed = Long.parseLong(args[1]);
    int count = Integer.parseInt(args[2]);
    ExecutorService readers = Executors.newFixedThreadPool(AT_A_TIME, WorkerConnectionCheck::daemon);
    List<Future<?>> held = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      long own = seed + i;
      held.add(readers.submit(() -> check(own)));
    }
    for (Future<?> one : held) {
      one.get();
    }
    check(ArrowUtils.rootAllocator().getAllocatedMemory() == 0, "memory is left");
    System.out.println(count + " conversations held");
  }

  private static Thread daemon(Runnable task) {
    Thread thread = new Thread(task);
    thread.setDaemon(true);
    return thread;
  }

  private static Script script(Random random) {
    Fate fate = Fate.values()[random.nextInt(Fate.values().length)];
    int boundary = BOUNDARIES.get(random.nextInt(BOUNDARIES.size()));
    int cut =
        switch (fate) {
          case BABBLES, SILENT_FOR_LONG, SILENT_UNTIL_STOPPED -> boundary; // between two frames
          case STALLS -> boundary + 1 + random.nextInt(Protocol.FRAME_HEADER_BYTES - 1);
          default -> random.nextBoolean() ? boundary : random.nextInt(stream.length);
        };
    int sent = 0; // batches that come whole
    for (int i = 0; i + 1 < BOUNDARIES.size() && BOUNDARIES.get(i + 1) <= cut; i++) {
      sent += stream[BOUNDARIES.get(i)] == Protocol.BATCH ? 1 : 0;
    }
    boolean stops = fate == Fate.SILENT_UNTIL_STOPPED || random.nextInt(3) == 0;
    return new Script(fate, cut, stops ? random.nextInt(sent + 1) : ALL, random.nextBoolean());
  }

  private static Void check(long seed) throws Exception {
    Random random = new Random(seed);
    Script script = script(random);
    Path path = Files.createTempDirectory("headrace").resolve("s");
    Process process = new ProcessBuilder("sleep", "600").start();
    try (ServerSocketChannel server =
        ServerSocketChannel.open(java.net.StandardProtocolFamily.UNIX).bind(UnixDomainSocketAddress.of(path))) {
      SocketChannel ours = SocketChannel.open(UnixDomainSocketAddress.of(path));
      try (SocketChannel theirs = server.accept()) {
        Future<?> worker = WORKERS.submit(() -> play(script, random, theirs, process));
        String outcome = read(script, ours, process);
        check(isRight(outcome, script), outcome);
        worker.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
        awaitClosed(ours);
      }
    } catch (Exception | AssertionError e) {
      throw new AssertionError("seed " + seed + ", " + script, e);
    } finally {
      process.destroyForcibly();
      Files.deleteIfExists(path);
      Files.deleteIfExists(path.getParent());
    }
    return null;
  }

  private static boolean isRight(String outcome, Script script) {
    if (script.batches < ALL) {
      return outcome.equals("stopped");
    }
    return switch (script.fate) {
      case WHOLE, SILENT_FOR_LONG, DIES_AFTER_ALL -> outcome.equals("whole");
      case CLOSES, DIES -> outcome.contains("the Python worker died while it produced");
      case STALLS -> outcome.contains("stopped before its end");
      case BABBLES -> outcome.contains("not a Headrace frame");
      case SILENT_UNTIL_STOPPED -> false;
    };
  }

  /** The connector's own reader over its own connection; says how it ended. */
  private static String read(Script script, SocketChannel channel, Process process) throws Exception {
    channel.configureBlocking(false); // as Spark does
    PythonWorker connection = new PythonWorker(channel).refresh();
    WorkerPool.Worker worker = new WorkerPool.Worker(null, connection, Option.apply(process.toHandle()));
    PartitionOrigin origin =
        new PartitionOrigin("checked") {
          @Override
          PartitionConnection connect(int partition, boolean sends) {
            return new WorkerConnection(PLACE, POOL, worker, nonce, sends);
          }
        };
    HeadraceReaderFactory factory = new HeadraceReaderFactory(null, origin, FrameFuzz.AS_THEY_ARE, false);
    long rows = 0;
    try (PartitionReader<ColumnarBatch> reader = factory.createColumnarReader(new HeadracePartition(0))) {
      for (int batches = 0; batches < script.batches; batches++) {
        if (!reader.next()) {
          check(rows == allRows, rows + " rows of " + allRows);
          return "whole";
        }
        rows += reader.get().numRows();
      }
      return "stopped";
    } catch (HeadraceException e) {
      return String.valueOf(e.getMessage());
    }
  }

  /** The worker's part. */
  private static Void play(Script script, Random random, SocketChannel channel, Process process) throws Exception {
    try {
      boolean all = script.fate == Fate.WHOLE || script.fate == Fate.DIES_AFTER_ALL;
      write(channel, 0, all ? stream.length : script.cut, random);
      switch (script.fate) {
        case SILENT_FOR_LONG -> {
          Thread.sleep(SILENCE_MILLIS);
          write(channel, script.cut, stream.length, random);
        }
        case CLOSES -> channel.close();
        case DIES, DIES_AFTER_ALL -> process.destroyForcibly().waitFor();
        case BABBLES -> channel.write(ByteBuffer.wrap("GET / HTTP/1.1\r\nHost: nobody.example\r\n\r\n".getBytes()));
        default -> {}
      }
      ByteBuffer one = ByteBuffer.allocate(1);
      while (channel.isOpen() && channel.read(one.clear()) > 0) {
        check(one.get(0) == Protocol.STOP && script.batches < ALL, "the JVM sent " + one.get(0));
        if (script.fate == Fate.SILENT_UNTIL_STOPPED && script.heedsStop) {
          channel.write(Protocol.frameHeader(Protocol.ERROR, 0, 2, 0, nonce));
          channel.write(ByteBuffer.wrap("{}".getBytes()));
        }
      }
    } catch (IOException e) {
      // The JVM has closed the connection, as it should.
    }
    return null;
  }

  private static void write(SocketChannel channel, int from, int to, Random random) throws Exception {
    int at = from;
    while (at < to) {
      int length = Math.min(to - at, 1 + random.nextInt(random.nextBoolean() ? 30 : stream.length));
      ByteBuffer piece = ByteBuffer.wrap(stream, at, length);
      while (piece.hasRemaining()) {
        channel.write(piece);
      }
      at += length;
      if (random.nextInt(8) == 0) {
        Thread.sleep(random.nextInt(5));
      }
    }
  }

  private static void awaitClosed(SocketChannel channel) throws InterruptedException {
    long deadline = System.nanoTime() + PATIENCE_SECONDS * 1_000_000_000L;
    while (channel.isOpen() && System.nanoTime() < deadline) {
      Thread.sleep(5);
    }
    check(!channel.isOpen(), "the connection is left open");
  }

  private static void check(boolean condition, String message) {
    if (!condition) {
      throw new AssertionError(message);
    }
  }
}
