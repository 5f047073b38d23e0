#include "structure/graph/edge_log.h"

#include <functional>

#include "structure/graph/test_graph.h"

namespace perdure::structure {
namespace {

using Log = EdgeLog<PmemPersistMemory<Offsets>>;

const std::string value_100(100, 'p');

/// A log on media, as one would find it after a power cut.
class LogStore : public SlotStore {
 public:
  LogStore() : SlotStore("graph_log:pmem-persist", HeapKind::pmdk, Pool::min_pool_bytes, options) {}

  [[nodiscard]] Log::Top& top() {
    IndexRoot root{};
    std::memcpy(&root, pool().at<void>(pool().roots().front().offset), sizeof root);
    return *pool().at<Log::Top>(root.head);
  }
  [[nodiscard]] Log::Chunk& at(Log::Ref<Log::Chunk> ref) {
    return *pool().at<Log::Chunk>(ref.offset);
  }
  [[nodiscard]] Log::Ref<Log::Chunk>& last_link() {
    Log::Ref<Log::Chunk>* link = &top().newest;
    while (at(*link).older) link = &at(*link).older;
    return *link;
  }
  [[nodiscard]] unsigned chunks() {
    unsigned count = 0;
    for (auto ref = top().newest; ref; ref = at(ref).older) ++count;
    return count;
  }
  [[nodiscard]] static Log::Entry* first_of(Log::Chunk& chunk) {
    return reinterpret_cast<Log::Entry*>(&chunk + 1);
  }
  [[nodiscard]] static Log::Entry* after(Log::Entry* entry) {
    return reinterpret_cast<Log::Entry*>(reinterpret_cast<std::byte*>(entry) + entry->bytes());
  }

  static inline const std::vector<std::string> options{"offsets=1", "chunk_entries=4"};
};

void expect_edges(LogStore& store, const SlotModel& model) {
  ASSERT_NO_FATAL_FAILURE(expect_model(store, model, 100));
}

/// 20 edges of one vertex in some chunks, with dead entries between the live ones.
void fill(LogStore& store, SlotModel& model) {
  for (std::uint64_t edge = 0; edge < 20; ++edge) {
    ASSERT_EQ(store.index().insert(edge, value_100), Outcome::ok);
    model[edge] = value_100;
  }
  for (std::uint64_t edge = 0; edge < 20; edge += 5) {
    ASSERT_EQ(store.index().remove(edge), Outcome::ok);
    model.erase(edge);
  }
  ASSERT_GE(store.chunks(), 4U);
}

// E4: a compaction is cut off after each of its words. `words`: how many are there.
TEST(EdgeLog, finishes_a_compaction_that_was_cut_off) {
  for (unsigned words = 0; words <= 3; ++words) {
    SCOPED_TRACE(words);
    LogStore store;
    SlotModel model;
    ASSERT_NO_FATAL_FAILURE(fill(store, model));
    Log::Top& top = store.top();
    const Log::Ref<Log::Chunk> emptied = store.last_link();
    Log::Chunk& fresh = store.at(top.spare);
    Log::Entry* to = store.first_of(fresh);
    for (Log::Entry* from = store.first_of(store.at(emptied)); from->mark != 0;
         from = store.after(from)) {
      if (from->state() != Log::Entry::live) continue;
      std::memcpy(to, from, from->bytes());
      to = store.after(to);
    }
    to->mark = 0;
    fresh.older = top.newest;
    const unsigned chunks = store.chunks();
    if (words >= 1) top.newest = top.spare;
    if (words >= 2) top.spare = emptied;
    if (words >= 3) store.last_link() = {};
    ASSERT_TRUE(succeeds(store.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_edges(store, model));
    EXPECT_EQ(store.chunks(), chunks);
    EXPECT_TRUE(store.top().spare);
    for (unsigned i = 0; i < 500; ++i) {
      const std::uint64_t edge = i % 40;
      const bool removes = i % 7 == 0 && model.contains(edge);
      if (removes) {
        ASSERT_EQ(store.index().remove(edge), Outcome::ok);
        model.erase(edge);
      } else {
        ASSERT_EQ(store.index().upsert(edge, value_of(i)), Outcome::ok);
        model[edge] = value_of(i);
      }
    }
    ASSERT_TRUE(succeeds(store.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_edges(store, model));
  }
}

// E3: what an update had not yet marked dead does not count, and does not come back when the edge
// goes; whether it is in the same chunk or in another.
TEST(EdgeLog, forgets_what_an_update_left_alive) {
  for (const std::uint64_t others : {0U, 10U}) {
    LogStore store;
    ASSERT_EQ(store.index().insert(50, "the old one"), Outcome::ok);
    Log::Entry* const old = store.first_of(store.at(store.top().newest));
    ASSERT_EQ(old->edge, 50U);
    SlotModel model;
    for (std::uint64_t edge = 0; edge < others; ++edge) {
      ASSERT_EQ(store.index().insert(edge, value_100), Outcome::ok);
      model[edge] = value_100;
    }
    ASSERT_EQ(store.index().update(50, "the new one"), Outcome::ok);
    model[50] = "the new one";
    ASSERT_EQ(old->state(), Log::Entry::dead);
    old->mark = Log::Entry::mark_of(old->value().size(), Log::Entry::live);
    ASSERT_TRUE(succeeds(store.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_edges(store, model));
    ASSERT_EQ(store.index().remove(50), Outcome::ok);
    model.erase(50);
    ASSERT_TRUE(succeeds(store.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_edges(store, model));
  }
}

// E2: what a power cut left after the end is not read.
TEST(EdgeLog, ends_at_its_end) {
  LogStore store;
  SlotModel model;
  for (std::uint64_t edge = 0; edge < 2; ++edge) {
    ASSERT_EQ(store.index().insert(edge, value_100), Outcome::ok);
    model[edge] = value_100;
  }
  Log::Entry* const end = store.after(store.after(store.first_of(store.at(store.top().newest))));
  ASSERT_EQ(end->mark, 0U);
  end->edge = 7;
  store.after(end)->mark = Log::Entry::mark_of(3, Log::Entry::live);
  ASSERT_TRUE(succeeds(store.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_edges(store, model));
}

TEST(EdgeLog, refuses_a_damaged_log) {
  const auto refuses = [](const std::function<void(LogStore&)>& damage) {
    LogStore store;
    SlotModel model;
    ASSERT_NO_FATAL_FAILURE(fill(store, model));
    damage(store);
    const Result<void> recovered = store.crash();
    ASSERT_FALSE(recovered.ok());
    EXPECT_EQ(recovered.error().code, ErrorCode::corrupt);
  };
  refuses([](LogStore& store) { store.first_of(store.at(store.top().newest))->mark = 3; });
  refuses([](LogStore& store) {
    store.first_of(store.at(store.top().newest))->mark =
        Log::Entry::mark_of(max_slot_value_bytes + 1, Log::Entry::live);
  });
  refuses([](LogStore& store) { store.last_link().offset += 8; });
  refuses([](LogStore& store) { store.at(store.last_link()).older = store.top().newest; });
  refuses([](LogStore& store) { store.top().spare.offset = 8; });
}

// E5: any number of changes runs in the room that a few of them need.
TEST(EdgeLog, takes_bounded_room) {
  constexpr std::uint64_t edges = 40;
  const std::size_t live = edges * Log::Entry::bytes_with(100);
  const std::size_t capacity = 16 * Log::Entry::bytes_with(max_slot_value_bytes);
  const std::size_t most_chunks = 2 * live / capacity + 2 + 1;  // and the spare
  for (const std::string& mode : all_modes) {
    const std::string name = "graph_log:" + mode;
    SlotStore store(name.c_str(), heap_of(name), Pool::min_pool_bytes, {"chunk_entries=16"});
    const std::uint64_t without = store.pool().heap().usage().live_blocks;
    Rng rng(17);
    std::uint64_t dram_bytes = 0;
    for (unsigned i = 0; i < 8000; ++i) {
      const std::uint64_t edge = Graph::edge(1, static_cast<Graph::Vertex>(rng.below(edges)));
      if (rng.below(4) == 0)
        store.index().remove(edge);
      else
        ASSERT_EQ(store.index().upsert(edge, value_100), Outcome::ok);
      ASSERT_LE(store.pool().heap().usage().live_blocks, without + most_chunks) << mode;
      if (i == 4000) dram_bytes = store.index().dram_bytes();
    }
    EXPECT_LE(store.index().dram_bytes(), dram_bytes + 2 * capacity) << mode;
    EXPECT_TRUE(succeeds(store.index().check_invariants())) << mode;
  }
}

// The spare: a full pool has room for every delete, and then for what the deleted took, though no
// chunk is empty.
TEST(EdgeLog, makes_room_in_a_full_pool) {
  for (const char* name : {"graph_log:pmem-persist", "graph_log:pmem-trans"}) {
    SlotStore store(name, HeapKind::pmdk);
    std::uint64_t filled = 0;
    while (store.index().insert(filled, value_100) == Outcome::ok) ++filled;
    ASSERT_GT(filled, 10000U);
    EXPECT_EQ(store.index().update(0, value_100 + "1234567890"), Outcome::out_of_space);
    std::uint64_t removed = 0;
    for (std::uint64_t edge = 0; edge < filled; edge += 4, ++removed)
      ASSERT_EQ(store.index().remove(edge), Outcome::ok);
    // Each chunk but the newest can be compacted to give back what died in it.
    for (std::uint64_t i = 0; i < removed * 9 / 10; ++i)
      ASSERT_EQ(store.index().insert(filled + i, value_100), Outcome::ok) << i << " of " << removed;
    ASSERT_TRUE(succeeds(store.crash()));
    ASSERT_TRUE(succeeds(store.index().check_invariants()));
    EXPECT_EQ(store.index().size(), filled - removed + removed * 9 / 10);
    std::string value;
    EXPECT_EQ(store.index().lookup(4, value), Outcome::not_found);
    EXPECT_EQ(store.index().lookup(5, value), Outcome::ok);
    EXPECT_EQ(value, value_100);
  }
}

// E1: an update cannot be torn: the old entry is whole until the new one counts.
TEST(EdgeLog, tears_nothing_in_any_mode) {
  for (const std::string& mode : all_modes)
    EXPECT_EQ((*IndexRegistry::find("graph_log:" + mode))->tearing, Tearing::nothing);
}

}  // namespace
}  // namespace perdure::structure
