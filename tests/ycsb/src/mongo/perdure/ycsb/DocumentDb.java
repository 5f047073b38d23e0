package perdure.ycsb;

import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Filters.gte;

import com.mongodb.ConnectionString;
import com.mongodb.MongoException;
import com.mongodb.MongoSocketException;
import com.mongodb.MongoTimeoutException;
import com.mongodb.client.FindIterable;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoCursor;
import com.mongodb.client.model.Projections;
import com.mongodb.client.model.Sorts;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import org.bson.Document;
import org.bson.types.Binary;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;
import site.ycsb.workloads.CoreWorkload;

/**
 * YCSB's operations over the official Java driver, as plainly as an application would write them.
 *
 * <p>The workload verifies the values that a read returns, and nothing else. So this class returns
 * UNEXPECTED_STATE where an answer has the wrong key, lacks a field or has one too many, where a
 * value belongs to another key or field, and where a scan does not begin at its key or is out of
 * order.
 *
 * <p>Property: {@code perdure.url}, a connection string that names the database.
 */
public final class DocumentDb extends DB {
  private static final String KEY = "_id";

  /** Less than a scan's limit, so that scans need getMore, too. */
  private static final int SCAN_BATCH = 40;

  private static final Object LOCK = new Object();
  // One for all threads, since a client is a pool of connections and has threads of its own.
  private static MongoClient client;
  private static int users;

  private String database;
  private int fieldCount;
  // With dataintegrity=true a value begins with "KEY:FIELD"; only the workload can make the rest.
  private boolean valuesNameTheirPlace;

  @Override
  public void init() throws DBException {
    String url = getProperties().getProperty("perdure.url");
    database = url == null ? null : new ConnectionString(url).getDatabase();
    if (database == null) {
      throw new DBException("perdure.url: no database; give mongodb://ADDRESS:PORT/DATABASE");
    }
    fieldCount =
        Integer.parseInt(
            getProperties()
                .getProperty(
                    CoreWorkload.FIELD_COUNT_PROPERTY,
                    CoreWorkload.FIELD_COUNT_PROPERTY_DEFAULT));
    valuesNameTheirPlace =
        Boolean.parseBoolean(
            getProperties()
                .getProperty(
                    CoreWorkload.DATA_INTEGRITY_PROPERTY,
                    CoreWorkload.DATA_INTEGRITY_PROPERTY_DEFAULT));
    synchronized (LOCK) {
      if (users++ == 0) {
        client = MongoClients.create(url);
      }
    }
  }

  @Override
  public void cleanup() {
    synchronized (LOCK) {
      if (--users == 0) {
        client.close();
      }
    }
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return answer(
        () -> {
          collection(table).insertOne(document(values).append(KEY, key));
          return Status.OK;
        });
  }

  @Override
  public Status read(
      String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    return answer(
        () -> {
          Document found = projected(collection(table).find(eq(KEY, key)), fields).first();
          if (found == null) {
            return Status.NOT_FOUND;
          }
          boolean whole = key.equals(found.get(KEY)) && copy(key, found, fields, result);
          return whole ? Status.OK : Status.UNEXPECTED_STATE;
        });
  }

  /** {@code start} must exist, as it does in every scan of CoreWorkload. */
  @Override
  public Status scan(
      String table,
      String start,
      int limit,
      Set<String> fields,
      Vector<HashMap<String, ByteIterator>> result) {
    return answer(
        () -> {
          FindIterable<Document> range =
              projected(collection(table).find(gte(KEY, start)), fields)
                  .sort(Sorts.ascending(KEY))
                  .limit(limit)
                  .batchSize(SCAN_BATCH);
          String last = null;
          try (MongoCursor<Document> cursor = range.iterator()) {
            while (cursor.hasNext()) {
              Document found = cursor.next();
              HashMap<String, ByteIterator> row = new HashMap<>();
              String key = found.getString(KEY);
              boolean inOrder = last == null ? key.equals(start) : key.compareTo(last) > 0;
              if (!inOrder || !copy(key, found, fields, row)) {
                return Status.UNEXPECTED_STATE;
              }
              result.add(row);
              last = key;
            }
          }
          boolean complete = last != null && result.size() <= limit;
          return complete ? Status.OK : Status.UNEXPECTED_STATE;
        });
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    return answer(
        () -> {
          Document change = new Document("$set", document(values));
          long matched = collection(table).updateOne(eq(KEY, key), change).getMatchedCount();
          return matched == 1 ? Status.OK : Status.NOT_FOUND;
        });
  }

  @Override
  public Status delete(String table, String key) {
    return answer(
        () -> {
          long deleted = collection(table).deleteOne(eq(KEY, key)).getDeletedCount();
          return deleted == 1 ? Status.OK : Status.NOT_FOUND;
        });
  }

  private interface Request {
    Status send();
  }

  /** YCSB counts a status that is returned, and ends at an exception. */
  private static Status answer(Request request) {
    try {
      return request.send();
    } catch (MongoSocketException | MongoTimeoutException error) {
      // The server is gone or stuck, so each further operation would wait in vain.
      throw error;
    } catch (MongoException error) {
      System.err.println(error);
      return Status.ERROR;
    }
  }

  private MongoCollection<Document> collection(String table) {
    return client.getDatabase(database).getCollection(table);
  }

  private static FindIterable<Document> projected(
      FindIterable<Document> found, Set<String> fields) {
    return fields == null
        ? found
        : found.projection(Projections.include(new ArrayList<>(fields)));
  }

  private static Document document(Map<String, ByteIterator> values) {
    Document made = new Document();
    values.forEach((field, value) -> made.append(field, new Binary(value.toArray())));
    return made;
  }

  /** Copies all fields but the key; returns whether they are those asked for, null being all. */
  private boolean copy(
      String key, Document found, Set<String> fields, Map<String, ByteIterator> values) {
    for (Map.Entry<String, Object> each : found.entrySet()) {
      if (!(each.getValue() instanceof Binary)) {
        continue;
      }
      byte[] value = ((Binary) each.getValue()).getData();
      if (valuesNameTheirPlace && !belongsTo(key + ":" + each.getKey(), value)) {
        return false;
      }
      values.put(each.getKey(), new ByteArrayByteIterator(value));
    }
    boolean nothingElse = found.size() == values.size() + 1;
    boolean all = fields == null ? values.size() == fieldCount : values.keySet().equals(fields);
    return nothingElse && all;
  }

  private static boolean belongsTo(String place, byte[] value) {
    // A value shorter than its place has the beginning of it.
    byte[] expected = place.getBytes(StandardCharsets.UTF_8);
    int length = Math.min(expected.length, value.length);
    return Arrays.equals(expected, 0, length, value, 0, length);
  }
}
