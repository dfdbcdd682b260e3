package org.headrace.spark.transport;

import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.api.python.PythonWorker;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.Place;
import org.headrace.spark.Versions;
import org.headrace.spark.send.BatchSender;
import org.headrace.spark.send.RowBatch;
import scala.Option;

/**
 * The sender over a worker's connection, against workers that answer, fail, pause, die, close, babble and are broken off, at
 * any frame; run by tests with a seed and a count. As in WorkerConnectionCheck a worker is a real process and a thread.
 */
public final class BatchSenderCheck {
  private static final Place PLACE = new Place("checked", 0);
  private static final WorkerPool POOL = new WorkerPool("python", scala.collection.immutable.Map$.MODULE$.empty());
  private static final StructType TYPE = new StructType().add("i", DataTypes.LongType);
  private static final Schema SCHEMA = Versions.arrowSchema(TYPE, "UTC");
  private static final int AT_A_TIME = 8;
  private static final int PATIENCE_SECONDS = 60;
  private static final int LARGE_ROWS = 64 * 1024; // a full batch: more than a socket takes
  private static final long NONCE = 0x1122334455667788L;
  private static final byte[] MESSAGE = "{\"n\": 1}".getBytes(StandardCharsets.UTF_8);
  private static final byte[] FAILURE =
      "{\"error\": \"ProviderError\", \"text\": \"told by the worker\"}".getBytes(StandardCharsets.UTF_8);
  private static final ExecutorService WORKERS = Executors.newCachedThreadPool(BatchSenderCheck::daemon);

  /** What the worker does after it has read so many frames; those up to FAILS_AND_READS_ON at any, the others at the end. */
  private enum Fate {
    CLOSES, DIES, DIES_UNREAD, BABBLES, SAYS_NOTHING_BYTES, ANSWERS_EARLY, FAILS_AND_READS_ON,
    ANSWERS, ANSWERS_LATE, ANSWERS_AND_BABBLES, FAILS_AT_THE_END, STALLS_IN_THE_ANSWER, ANSWERS_TOO_MUCH, ANSWERS_ANOTHER
  }

  /** {@code sent}: batches after which the JVM breaks off; all, if it does not. */
  private record Script(Fate fate, int after, int batches, int sent, boolean large) {}

  private BatchSenderCheck() {}

  public static void main(String[] args) throws Exception {
    PeerChannel.lookMillis = 20;
    PeerChannel.stallMillis = 1_500;
    WorkerConnection.graceMillis = 300;
    long seed = Long.parseLong(args[0]);
    int count = Integer.parseInt(args[1]);
    ExecutorService senders = Executors.newFixedThreadPool(AT_A_TIME, BatchSenderCheck::daemon);
    List<Future<?>> held = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      long own = seed + i;
      held.add(senders.submit(() -> check(own)));
    }
    for (Future<?> one : held) {
      one.get();
    }
    checkFullBatch();
    check(ArrowUtils.rootAllocator().getAllocatedMemory() == 0, "memory is left");
    System.out.println(count + " partitions sent");
  }

  /** Columns are written by address: a row too many would be written over somebody else's memory. */
  private static void checkFullBatch() {
    for (StructType type : List.of(TYPE, TYPE.add("s", DataTypes.StringType), new StructType())) {
      Object[] values = {1L, org.apache.spark.unsafe.types.UTF8String.fromString("text")};
      GenericInternalRow row = new GenericInternalRow(java.util.Arrays.copyOf(values, type.length()));
      try (RowBatch rows = new RowBatch(Versions.arrowSchema(type, "UTC"))) {
        while (!rows.isFull()) {
          rows.add(row);
        }
        rows.add(row);
        throw new AssertionError("a full batch took one more row: " + type);
      } catch (IllegalStateException e) {
        check(e.getMessage().equals("the batch is full"), e.getMessage());
      }
    }
  }

  private static Thread daemon(Runnable task) {
    Thread thread = new Thread(task);
    thread.setDaemon(true);
    return thread;
  }

  private static Script script(Random random) {
    Fate fate = Fate.values()[random.nextInt(Fate.values().length)];
    int batches = random.nextInt(5);
    int frames = batches + 2;
    boolean atEnd = fate.ordinal() > Fate.FAILS_AND_READS_ON.ordinal();
    int sent = random.nextInt(4) == 0 ? random.nextInt(batches + 1) : batches + 1;
    return new Script(fate, atEnd ? frames : random.nextInt(frames), batches, sent, random.nextInt(3) == 0);
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
        Future<?> worker = WORKERS.submit(() -> play(script, theirs, process));
        String outcome = send(script, ours, process);
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
    if (script.sent <= script.batches && outcome.equals("broken off")) {
      return true;
    }
    return switch (script.fate) {
      case CLOSES, DIES, DIES_UNREAD -> outcome.contains("the Python worker died while it received");
      case BABBLES, SAYS_NOTHING_BYTES -> outcome.contains("not a Headrace frame");
      // After the end the answer looks like any other: a worker of ours reads END before it sends one.
      case ANSWERS_EARLY -> outcome.contains("was answered before its end") || outcome.equals("answered");
      case FAILS_AND_READS_ON, FAILS_AT_THE_END -> outcome.contains("told by the worker");
      case ANSWERS, ANSWERS_LATE, ANSWERS_AND_BABBLES -> outcome.equals("answered");
      case STALLS_IN_THE_ANSWER -> outcome.contains("stopped before its end");
      case ANSWERS_TOO_MUCH -> outcome.contains("instead of a message");
      case ANSWERS_ANOTHER -> outcome.contains("a frame of another request");
    };
  }

  /** The connector's own sender over its own connection; says how it ended. */
  private static String send(Script script, SocketChannel channel, Process process) throws Exception {
    channel.configureBlocking(false); // as Spark does
    PythonWorker connection = new PythonWorker(channel).refresh();
    WorkerPool.Worker worker = new WorkerPool.Worker(null, connection, Option.apply(process.toHandle()));
    PartitionOrigin origin =
        new PartitionOrigin("checked") {
          @Override
          PartitionConnection connect(int partition, boolean sends) {
            check(sends, "it is opened to be read");
            return new WorkerConnection(PLACE, POOL, worker, NONCE, sends);
          }
        };
    try (BatchSender sender = BatchSender.open(origin, 0, SCHEMA);
        RowBatch rows = new RowBatch(SCHEMA)) {
      for (int i = 0; i < script.batches; i++) {
        if (i == script.sent) {
          return "broken off";
        }
        for (int row = script.large ? LARGE_ROWS : 1; row > 0; row--) {
          rows.add(new GenericInternalRow(new Object[] {(long) i}));
        }
        rows.send(sender);
      }
      if (script.sent <= script.batches) {
        return "broken off";
      }
      check(java.util.Arrays.equals(sender.end(), MESSAGE), "another message");
      check(sender.rows() == (long) script.batches * (script.large ? LARGE_ROWS : 1), "rows " + sender.rows());
      return "answered";
    } catch (HeadraceException e) {
      return String.valueOf(e.getMessage());
    }
  }

  /** The worker's part. */
  private static Void play(Script script, SocketChannel channel, Process process) throws Exception {
    try {
      for (int frame = 0; frame < script.after; frame++) {
        readFrame(channel);
      }
      switch (script.fate) {
        case CLOSES -> channel.close();
        case DIES, DIES_UNREAD -> process.destroyForcibly().waitFor();
        case BABBLES -> write(channel, "GET / HTTP/1.1\r\nHost: nobody.example\r\n\r\n".getBytes());
        case SAYS_NOTHING_BYTES -> write(channel, new byte[40]); // on the endpoint's connections a 0 is a sign of life
        case FAILS_AND_READS_ON, FAILS_AT_THE_END -> answer(channel, Protocol.ERROR, FAILURE, NONCE);
        case ANSWERS_LATE -> {
          Thread.sleep(200);
          answer(channel, Protocol.MESSAGE, MESSAGE, NONCE);
        }
        case ANSWERS, ANSWERS_EARLY -> answer(channel, Protocol.MESSAGE, MESSAGE, NONCE);
        case ANSWERS_AND_BABBLES -> {
          answer(channel, Protocol.MESSAGE, MESSAGE, NONCE);
          write(channel, new byte[] {1});
        }
        case STALLS_IN_THE_ANSWER ->
            channel.write(Protocol.frameHeader(Protocol.MESSAGE, 0, MESSAGE.length, 0, NONCE).limit(9));
        case ANSWERS_TOO_MUCH -> channel.write(Protocol.frameHeader(Protocol.MESSAGE, 0, (1 << 20) + 1, 0, NONCE));
        case ANSWERS_ANOTHER -> answer(channel, Protocol.MESSAGE, MESSAGE, NONCE + 1);
      }
      if (script.fate == Fate.DIES_UNREAD) { // its connection is held by somebody else, who does not read it
        return null;
      }
      ByteBuffer dropped = ByteBuffer.allocate(1 << 16);
      while (channel.isOpen() && channel.read(dropped.clear()) > 0) {
        continue;
      }
    } catch (IOException e) {
      // The JVM has closed the connection, as it should.
    }
    return null;
  }

  private static void readFrame(SocketChannel channel) throws IOException {
    ByteBuffer header = read(channel, Protocol.FRAME_HEADER_BYTES).order(ByteOrder.LITTLE_ENDIAN);
    check(header.getLong(16) == NONCE, "another nonce");
    read(channel, header.getInt(4));
    read(channel, (int) header.getLong(8));
  }

  private static ByteBuffer read(SocketChannel channel, int length) throws IOException {
    ByteBuffer bytes = ByteBuffer.allocate(length);
    while (bytes.hasRemaining()) {
      if (channel.read(bytes) < 0) {
        throw new java.io.EOFException();
      }
    }
    return bytes.flip();
  }

  private static void answer(SocketChannel channel, int kind, byte[] first, long nonce) throws IOException {
    channel.write(Protocol.frameHeader(kind, 0, first.length, 0, nonce));
    write(channel, first);
  }

  private static void write(SocketChannel channel, byte[] bytes) throws IOException {
    channel.write(ByteBuffer.wrap(bytes));
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
