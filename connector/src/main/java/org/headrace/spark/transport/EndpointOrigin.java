package org.headrace.spark.transport;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.Base64;

/** DRIVER placement and streaming tables: the driver's Python process serves the partitions. */
final class EndpointOrigin extends PartitionOrigin {
  private static final long serialVersionUID = 1L;
  private final String socketPath;
  private final String host;
  private final int port;
  private final byte[] secret;
  private final byte[] ticket;
  private final byte[] certificate;

  private EndpointOrigin(
      String table, String socketPath, String host, int port, byte[] secret, byte[] ticket, byte[] certificate) {
    super(table);
    this.socketPath = socketPath;
    this.host = host;
    this.port = port;
    this.secret = secret;
    this.ticket = ticket;
    this.certificate = certificate;
  }

  static EndpointOrigin from(JsonNode endpoint, String table) {
    return new EndpointOrigin(
        table,
        endpoint.path("path").asText(""),
        endpoint.path("host").asText(""),
        endpoint.path("port").asInt(0),
        Base64.getDecoder().decode(endpoint.get("secret").asText()),
        Base64.getDecoder().decode(endpoint.get("ticket").asText()),
        Base64.getDecoder().decode(endpoint.path("certificate").asText("")));
  }

  @Override
  PartitionConnection connect(int partition, boolean sends) throws IOException {
    return EndpointConnection.open(place(partition), socketPath, host, port, secret, ticket, certificate, sends);
  }
}
