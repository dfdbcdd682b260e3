package org.headrace.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkFiles;
import org.apache.spark.api.python.PythonUtils;
import org.headrace.spark.HeadraceException;
import org.headrace.spark.planner.Planner;
import org.headrace.spark.planner.Planners;
import org.headrace.spark.transport.RemotePlanner;
import org.headrace.spark.transport.SessionPython;

/**
 * The planner of a Spark Connect session whose server cannot reach its client: a Python process beside the server, which is
 * sent pickled providers; driver JVM.
 *
 * <p>It starts with the first table. It ends with the last one, with its session context, or when this JVM does: that
 * closes its standard input.
 */
final class PlannerProcess implements Planner {
  private static final String MODULE = "headrace.spark.connect.planner_process";
  private static final long START_SECONDS = 60;
  private static final Map<String, String> WITHOUT_TABLES =
      Map.of(
          "load", "{\"exists\": false}",
          "list", "{\"exists\": true, \"tables\": []}",
          "schemas", "{\"schemas\": [\"default\"]}",
          "schema", "{\"exists\": true}",
          "release", "{}",
          "release_table", "{}",
          "drop_table", "{\"left\": 0}");

  private final String archive;
  private final String archivePath;
  private Process process;
  private RemotePlanner planner;

  /** To be made on a thread of the session. */
  PlannerProcess(String archive) {
    this.archive = archive;
    this.archivePath = new File(SparkFiles.getRootDirectory(), SessionPython.file(archive)).getAbsolutePath();
  }

  @Override
  public String call(String operation, String question) {
    RemotePlanner running = running(operation);
    if (running == null) {
      String answer = WITHOUT_TABLES.get(operation);
      if (answer == null) {
        throw failed("the process that planned this table has ended; register the table again");
      }
      return answer;
    }
    String answer = running.call(operation, question);
    if (operation.equals("drop_table") && answer.equals("{\"left\": 0}")) {
      end();
    }
    return answer;
  }

  private synchronized RemotePlanner running(String operation) {
    if (process != null && !process.isAlive()) {
      int code = process.exitValue();
      end();
      throw failed("the process that planned this session's tables ended with " + code + "; register them again");
    }
    if (process == null && operation.equals("add_table")) {
      start();
    }
    return planner;
  }

  private void start() {
    // With -P, and without empty entries, modules do not come from whichever directory the server runs in.
    ProcessBuilder builder = new ProcessBuilder(SessionPython.executable(), "-P", "-m", MODULE);
    String inherited = builder.environment().getOrDefault("PYTHONPATH", "");
    builder
        .environment()
        .put(
            "PYTHONPATH",
            Stream.of(archivePath, PythonUtils.sparkPythonPath(), inherited)
                .flatMap(path -> Stream.of(path.split(File.pathSeparator)))
                .filter(entry -> !entry.isEmpty())
                .collect(Collectors.joining(File.pathSeparator)));
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    SparkConf conf = SparkEnv.get().conf();
    String host = conf.get("spark.driver.host");
    Map<String, String> settings = new HashMap<>();
    settings.put("archive", archive);
    settings.put("host", host);
    settings.put("bind", conf.get("spark.driver.bindAddress", host));
    for (String tls : List.of("spark.headrace.tls.certificate", "spark.headrace.tls.key")) {
      if (conf.contains(tls)) {
        settings.put(tls, conf.get(tls)); // files of the server's: the client's are elsewhere
      }
    }
    boolean started = false;
    try {
      process = builder.start();
      OutputStream input = process.getOutputStream();
      input.write((Planners.JSON.writeValueAsString(settings) + "\n").getBytes(StandardCharsets.UTF_8));
      input.flush();
      planner = new RemotePlanner(firstLine(process));
      started = true;
    } catch (IOException | ExecutionException | TimeoutException e) {
      throw failed("no Python process could be started beside the server to plan this session's tables: " + e
          + ". It needs a Python of the client's minor version with pyarrow (" + SessionPython.executable()
          + "); what it said is in the server's log");
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw failed("cancelled while a Python process was started");
    } finally {
      if (!started) {
        end();
      }
    }
  }

  /** Its endpoint's address. Only this pipe sees the secret in it. */
  private static JsonNode firstLine(Process process)
      throws IOException, InterruptedException, ExecutionException, TimeoutException {
    BufferedReader output =
        new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    String line =
        CompletableFuture.supplyAsync(
                () -> {
                  try {
                    return output.readLine();
                  } catch (IOException e) {
                    return null;
                  }
                })
            .get(START_SECONDS, TimeUnit.SECONDS);
    if (line == null) {
      throw new IOException("it ended at once");
    }
    return Planners.JSON.readTree(line);
  }

  synchronized void end() {
    if (process != null) {
      process.destroyForcibly();
    }
    process = null;
    planner = null;
  }

  private static HeadraceException failed(String message) {
    return HeadraceException.of("TransportError", null, message);
  }
}
