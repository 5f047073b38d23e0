#include "support/bed.h"

#include <sys/mman.h>

#include "pm/persist.h"

namespace perdure::testing {

std::uint64_t free_address(std::uint64_t bytes) {
  constexpr std::uint64_t alignment = 2ULL << 20;
  void* const found = mmap(nullptr, bytes + 2 * alignment, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return 0;
  munmap(found, bytes + 2 * alignment);
  return (reinterpret_cast<std::uint64_t>(found) + alignment - 1) & ~(alignment - 1);
}

namespace {

/// Keeps a range of addresses from being used while it lives. libpmemobj chooses its own address
/// and would come back to the old one.
class Blocked {
 public:
  Blocked(const std::byte* begin, std::uint64_t bytes) : bytes_(bytes) {
    if (begin != nullptr)
      range_ = mmap(const_cast<std::byte*>(begin), bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  }
  ~Blocked() {
    if (range_ != MAP_FAILED) munmap(range_, bytes_);
  }
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;

 private:
  std::uint64_t bytes_;
  void* range_ = MAP_FAILED;
};

/// What the index can be durable under; others of the process may have been told otherwise.
void set_durability(const IndexInfo& info) {
  pm::configure(info.needs_eadr ? pm::Durability::eadr : pm::Durability::adr);
}

}  // namespace

template <class Keys>
Result<IndexOptions> Bed<Keys>::options() const {
  std::vector<std::string> pairs = target_.options;
  pairs.insert(pairs.end(), options_.options.begin(), options_.options.end());
  return IndexRegistry::options(*target_.info, pairs);
}

template <class Keys>
Result<IndexPlace> Bed<Keys>::place() const {
  auto chosen = options();
  if (!chosen) return chosen.error();
  IndexPlace place;
  place.pool = pool_.get();
  place.path = path_;
  place.capacity_bytes = options_.pool_bytes;
  place.options = chosen.value();
  place.threads = options_.threads;
  return place;
}

template <class Keys>
Result<std::unique_ptr<Bed<Keys>>> Bed<Keys>::create(const Target& target,
                                                     const BedOptions& options) {
  std::unique_ptr<Bed> bed(new Bed);
  bed->target_ = target;
  bed->options_ = options;
  bed->folder_ = std::make_unique<TempFolder>();
  bed->path_ = bed->folder_->file("index");
  if (target.uses_pool()) {
    const auto chosen = bed->options();
    if (!chosen) return chosen.error();
    auto pool = Pool::create({.path = bed->path_,
                              .heap = target.heap,
                              .bytes = options.pool_bytes,
                              .huge_pages = false,
                              .prefault = false,
                              .parts = chosen->pool_parts()});
    if (!pool) return pool.error();
    bed->pool_ = std::move(pool).value();
  }
  set_durability(*target.info);
  auto place = bed->place();
  if (!place) return place.error();
  auto index = create_index<Keys>(*target.info, place.value());
  if (!index) return index.error();
  bed->index_ = std::move(index).value();
  return bed;
}

template <class Keys>
Result<std::unique_ptr<Bed<Keys>>> Bed<Keys>::open(const Target& target, const BedOptions& options,
                                                   const std::string& path) {
  std::unique_ptr<Bed> bed(new Bed);
  bed->target_ = target;
  bed->options_ = options;
  bed->path_ = path;
  if (auto done = bed->recover(0); !done) return done.error();
  return bed;
}

template <class Keys>
Result<void> Bed<Keys>::recover(std::uint64_t map_address) {
  if (target_.uses_pool()) {
    const auto chosen = options();
    if (!chosen) return chosen.error();
    auto pool = Pool::open({.path = path_,
                            .huge_pages = false,
                            .prefault = false,
                            .map_address = map_address,
                            .parts = chosen->pool_parts()});
    if (!pool) return pool.error();
    pool_ = std::move(pool).value();
  }
  set_durability(*target_.info);
  auto where = place();
  if (!where) return where.error();
  auto index = recover_index<Keys>(*target_.info, where.value());
  if (!index) return index.error();
  index_ = std::move(index).value();
  return {};
}

template <class Keys>
Result<Reopened> Bed<Keys>::reopen(Reopen how) {
  const std::byte* const before = pool_ ? pool_->base() : nullptr;
  // Found while the old mapping still stands, so it is another address for certain.
  const std::uint64_t bytes = pool_ ? pool_->extent_bytes() : 0;
  const std::uint64_t elsewhere = pool_ ? free_address(bytes) : 0;
  {
    // Held until the index is gone, so that nothing its background threads map lies there.
    const Blocked held(reinterpret_cast<const std::byte*>(elsewhere), bytes);
    if (how == Reopen::clean) {
      if (auto done = close(); !done) return done.error();
    } else {
      drop();
    }
  }
  const Blocked blocked(before, bytes);
  if (auto done = recover(elsewhere); !done) return done.error();
  if (!pool_) return Reopened{};
  if (pool_->base() == before)
    return Error{ErrorCode::failed, "the pool was mapped at the same address again", path_, ""};
  if (!pool_->ready())
    return Error{ErrorCode::failed, "the pool is not ready after the recovery of its root", path_,
                 ""};
  // Where an index serves before its recovery has ended, only then are all blocks known.
  if (pool_ && pool_->is_recovering()) index_->quiesce();
  return Reopened{pool_->leaked_blocks_freed(), pool_->heap().usage()};
}

template <class Keys>
Result<void> Bed<Keys>::close() {
  if (index_) settle_index<Keys>(*index_, pool_.get(), IndexPlace().root_name);
  index_.reset();
  if (!pool_) return {};
  auto done = pool_->close();
  pool_.reset();
  return done;
}

template <class Keys>
void Bed<Keys>::drop() {
  index_.reset();
  pool_.reset();
}

template class Bed<IntegerKeys>;
template class Bed<ByteKeys>;
template class Bed<SlotKeys>;

}  // namespace perdure::testing
