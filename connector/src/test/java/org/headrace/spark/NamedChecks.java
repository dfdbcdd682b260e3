package org.headrace.spark;

import java.io.PrintWriter;
import java.io.StringWriter;

/**
 * Runs checks by their names and prints a line for each: the name, a tab, and "passed" or the error's stack trace; tests
 * read the lines, so that each check is a test of its own.
 */
public final class NamedChecks {
  private NamedChecks() {}

  /** One check; it fails by throwing. */
  public interface Check {
    void run() throws Exception;
  }

  public static void run(String name, Check check) {
    StringWriter outcome = new StringWriter();
    try {
      check.run();
      outcome.write("passed");
    } catch (Exception | AssertionError e) {
      e.printStackTrace(new PrintWriter(outcome, true));
    }
    System.out.println(name + "\t" + outcome.toString().strip().replace("\n", "\\n"));
  }
}
