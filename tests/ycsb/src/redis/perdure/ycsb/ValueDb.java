package perdure.ycsb;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisDataException;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;
import site.ycsb.workloads.CoreWorkload;

/**
 * YCSB's operations by GET, SET and DEL: a record is the value of one key, all fields in it.
 *
 * <p>A value is, for each field, the length of its name, the name, the length of its content, and
 * the content; lengths are 32-bit numbers, big-endian. A read takes the whole value, so it is one
 * GET. An update must give all fields ({@code writeallfields=true}) and is one SET, like an insert:
 * to change one field would take a lock that these commands do not have. There are no scans.
 *
 * <p>A value that lacks a field or is no such list is UNEXPECTED_STATE.
 *
 * <p>Properties: {@code perdure.host}, {@code perdure.port}. Each thread has its own connection.
 */
public final class ValueDb extends DB {
  private static final int TIMEOUT_MS = 60_000; // a server that is stuck ends the client

  private Jedis connection;
  private int fieldCount;

  @Override
  public void init() throws DBException {
    String host = getProperties().getProperty("perdure.host", "127.0.0.1");
    String port = getProperties().getProperty("perdure.port");
    if (port == null) {
      throw new DBException("perdure.port: not given");
    }
    fieldCount =
        Integer.parseInt(
            getProperties()
                .getProperty(
                    CoreWorkload.FIELD_COUNT_PROPERTY,
                    CoreWorkload.FIELD_COUNT_PROPERTY_DEFAULT));
    connection = new Jedis(host, Integer.parseInt(port), TIMEOUT_MS);
    connection.connect();
  }

  @Override
  public void cleanup() {
    connection.close();
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return answer(() -> set(key, values));
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    return values.size() == fieldCount ? answer(() -> set(key, values)) : Status.NOT_IMPLEMENTED;
  }

  @Override
  public Status read(
      String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    return answer(
        () -> {
          byte[] value = connection.get(bytes(key));
          if (value == null) {
            return Status.NOT_FOUND;
          }
          return copy(value, fields, result) ? Status.OK : Status.UNEXPECTED_STATE;
        });
  }

  @Override
  public Status delete(String table, String key) {
    return answer(() -> connection.del(bytes(key)) == 1 ? Status.OK : Status.NOT_FOUND);
  }

  @Override
  public Status scan(
      String table,
      String start,
      int limit,
      Set<String> fields,
      Vector<HashMap<String, ByteIterator>> result) {
    return Status.NOT_IMPLEMENTED;
  }

  private interface Request {
    Status send();
  }

  /** YCSB counts a status; a lost connection ends it, as each further operation would fail, too. */
  private static Status answer(Request request) {
    try {
      return request.send();
    } catch (JedisDataException error) {
      System.err.println(error);
      return Status.ERROR;
    }
  }

  private Status set(String key, Map<String, ByteIterator> values) {
    return "OK".equals(connection.set(bytes(key), encoded(values))) ? Status.OK : Status.ERROR;
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static byte[] encoded(Map<String, ByteIterator> values) {
    byte[][] parts = new byte[2 * values.size()][];
    int size = 0;
    int next = 0;
    for (Map.Entry<String, ByteIterator> field : values.entrySet()) {
      parts[next++] = bytes(field.getKey());
      parts[next++] = field.getValue().toArray();
      size += 2 * Integer.BYTES + parts[next - 2].length + parts[next - 1].length;
    }
    ByteBuffer value = ByteBuffer.allocate(size);
    for (byte[] part : parts) {
      value.putInt(part.length).put(part);
    }
    return value.array();
  }

  /** Copies the fields that are asked for, null being all; returns whether the value is whole. */
  private boolean copy(byte[] value, Set<String> fields, Map<String, ByteIterator> result) {
    ByteBuffer rest = ByteBuffer.wrap(value);
    int found = 0;
    try {
      for (; rest.hasRemaining(); ++found) {
        String name = new String(part(rest), StandardCharsets.UTF_8);
        byte[] content = part(rest);
        if (fields == null || fields.contains(name)) {
          result.put(name, new ByteArrayByteIterator(content));
        }
      }
    } catch (BufferUnderflowException error) {
      return false;
    }
    return found == fieldCount && result.size() == (fields == null ? fieldCount : fields.size());
  }

  private static byte[] part(ByteBuffer rest) {
    int length = rest.getInt();
    if (length < 0 || length > rest.remaining()) {
      throw new BufferUnderflowException();
    }
    byte[] content = new byte[length];
    rest.get(content);
    return content;
  }
}
