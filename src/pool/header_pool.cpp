#include "pool/header_pool.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/assert.h"
#include "pool/mapping.h"

namespace perdure {
namespace {

// A name from media may hold anything; errors are one line of plain text.
std::string quoted(std::string_view name) {
  std::string text = "'";
  for (const char c : name) text += c >= ' ' && c <= '~' ? c : '?';
  return text + "'";
}

}  // namespace

Result<void> HeaderPool::start_new() {
  was_clean_ = true;
  const Result<std::uint64_t> swept = heap_->sweep();
  if (!swept) return swept.error();
  ready_ = true;
  return {};
}

Result<void> HeaderPool::start_existing() {
  was_clean_ = header_->clean.load(std::memory_order_relaxed) == PoolHeader::clean_word;
  for (unsigned i = 0; i < max_roots; ++i) {
    const PoolHeader::Root& root = header_->root[i];
    if (root.commit.load(std::memory_order_relaxed) == 0) continue;
    if (!contains(root.offset(), root.bytes) || !heap_->mark(root.offset(), root.bytes))
      return Error{ErrorCode::corrupt,
                   "root " + quoted(root.title()) + " is not a block of the heap", path_,
                   "restore the file from a copy, or create a new pool"};
    awaited_[i] = true;
  }
  if (was_clean_ && !header_->kept.is_empty()) kept_ = header_->kept;
  set_clean(0);
  return sweep_if_all_recovered();
}

void HeaderPool::finish() {
  if (damaged_.load(std::memory_order_acquire)) return;
  if (ready_) keep();
  if (ready_ || was_clean_) set_clean(PoolHeader::clean_word);
}

// H6. A pool that is closed before it was recovered keeps what it had.
void HeaderPool::keep() {
  PoolHeader::Kept kept{};
  bool all_settled = header_->layout_version >= 2 && !is_recovering();
  for (unsigned i = 0; i < max_roots; ++i)
    if (header_->root[i].commit.load(std::memory_order_relaxed) != 0)
      all_settled = all_settled && settled_.by[i];
  if (all_settled)
    if (const std::optional<Heap::Census> census = heap_->allocated())
      kept = {census->blocks, census->sum, settled_.records() + 1, 0};
  if (kept.records != 0) kept.check = kept.compute_check();
  if (kept.records != 0 || !header_->kept.is_empty()) header_->kept = kept;
}

bool HeaderPool::tell(Told& told, std::string_view name, std::uint64_t records) const noexcept {
  bool all = true;
  for (unsigned i = 0; i < max_roots; ++i) {
    const PoolHeader::Root& root = header_->root[i];
    if (root.commit.load(std::memory_order_acquire) == 0) continue;
    if (root.title() == name) told.tell(i, records);
    all = all && told.by[i];
  }
  return all;
}

void HeaderPool::note_settled(std::string_view name, std::uint64_t records) {
  static_cast<void>(tell(settled_, name, records));
}

Result<void> HeaderPool::check_records(std::string_view name, std::uint64_t records) {
  if (!kept_ || kept_->records == 0 || !tell(recovered_, name, records)) return {};
  const std::uint64_t kept = kept_->records - 1;
  if (recovered_.records() == kept) return {};
  return differs("holds " + std::to_string(recovered_.records()) + " records, and held " +
                 std::to_string(kept) + " when it was closed");
}

Result<void> HeaderPool::check_blocks() {
  if (!kept_) return {};
  const std::optional<Heap::Census> found = heap_->marked();
  if (!found || *found == Heap::Census{kept_->blocks, kept_->sum}) return {};
  if (found->blocks == kept_->blocks)
    return differs("links to other blocks than when it was closed");
  return differs("links to " + std::to_string(found->blocks) + " blocks, and had " +
                 std::to_string(kept_->blocks) + " when it was closed");
}

// The flag is set again, so that the next opening compares, too, and does not take the damage for
// what a crash may leave.
Error HeaderPool::differs(const std::string& what) {
  note_damage();
  set_clean(PoolHeader::clean_word);
  return {ErrorCode::corrupt, "the pool " + what, path_,
          "restore the file from a copy, or create a new pool"};
}

void HeaderPool::set_clean(std::uint64_t word) {
  pm::store_persist(header_->clean, word);
  sync_page_cache(reinterpret_cast<const std::byte*>(&header_->clean), sizeof word, medium_);
}

Result<void> HeaderPool::add_root(std::string_view name, Reservation& block) {
  PERDURE_ASSERT(block);
  if (name.empty() || name.size() >= sizeof(PoolHeader::Root::name) ||
      name.find('\0') != std::string_view::npos)
    return Error{ErrorCode::usage, "bad root name " + quoted(name), path_,
                 "use 1 to 31 bytes without zeros"};
  if (!ready_)
    return Error{ErrorCode::usage, "the pool is not recovered yet", path_,
                 "recover its roots first"};
  const pm::LockGuard alone(roots_lock_);
  Result<void> result;
  const auto free_root = std::ranges::find_if(header_->root, [](const PoolHeader::Root& root) {
    return root.commit.load(std::memory_order_relaxed) == 0;
  });
  if (find_root(name) != nullptr) {
    result = Error{ErrorCode::exists, "the pool has a root " + quoted(name) + " already", path_,
                   "choose another name"};
  } else if (free_root == header_->root.end()) {
    result = Error{ErrorCode::out_of_space,
                   "the table of roots is full (" + std::to_string(max_roots) + ")", path_,
                   "use another pool"};
  } else {
    // P2: the entry is durable before its commit word, and the word appears with the block.
    const std::uint64_t commit = PoolHeader::Root::commit_tag | block.offset;
    // By one call, which the explorer sees: it misses a fill, and a cut may have left a name there.
    decltype(PoolHeader::Root::name) title{};
    std::ranges::copy(name, title.begin());
    std::memcpy(free_root->name.data(), title.data(), sizeof title);
    free_root->bytes = block.bytes;
    free_root->unused = 0;
    free_root->checksum = free_root->checksum_with(commit);
    pm::persist(&*free_root, sizeof *free_root);
    heap_->publish({&block, 1}, &free_root->commit, commit);
    sync_page_cache(reinterpret_cast<const std::byte*>(&*free_root), sizeof *free_root, medium_);
  }
  return result;
}

std::vector<PoolRoot> HeaderPool::roots() const {
  std::vector<PoolRoot> all;
  for (const PoolHeader::Root& root : header_->root)
    if (root.commit.load(std::memory_order_acquire) != 0)
      all.push_back({std::string(root.title()), root.offset(), root.bytes});
  return all;
}

PoolHeader::Root* HeaderPool::find_root(std::string_view name) const noexcept {
  for (PoolHeader::Root& root : header_->root)
    if (root.commit.load(std::memory_order_acquire) != 0 && root.title() == name) return &root;
  return nullptr;
}

Result<void> HeaderPool::root_recovered(std::string_view name) {
  const PoolHeader::Root* root = find_root(name);
  if (root == nullptr)
    return Error{ErrorCode::not_found, "the pool has no root " + quoted(name), path_, ""};
  awaited_[static_cast<std::size_t>(root - header_->root.data())] = false;
  return sweep_if_all_recovered();
}

Result<bool> HeaderPool::recover_later(std::string_view name,
                                       std::atomic<std::uint64_t>& high_water) {
  const PoolHeader::Root* root = find_root(name);
  if (root == nullptr || roots().size() != 1 || ready_) return false;
  const Result<bool> serves = heap_->serve_above(high_water);
  if (!serves || !*serves) return serves;
  awaited_[static_cast<std::size_t>(root - header_->root.data())] = false;
  recovering_.store(true, std::memory_order_release);
  ready_ = true;
  return true;
}

Result<void> HeaderPool::finish_recovery() {
  if (kept_) {
    // The pool has changed meanwhile: what was kept speaks of it no more.
    const std::optional<Heap::Census> found = heap_->marked();
    if (found && *found != Heap::Census{kept_->blocks, kept_->sum}) {
      note_damage();
      return corrupt_pool(path_, "the pool links to other blocks than when it was closed");
    }
  }
  const Result<std::uint64_t> swept = heap_->sweep();
  if (!swept) return swept.error();
  leaked_blocks_freed_ = *swept;
  recovering_.store(false, std::memory_order_release);
  return {};
}

Result<void> HeaderPool::sweep_if_all_recovered() {
  if (ready_ || std::ranges::find(awaited_, true) != awaited_.end()) return {};
  if (const Result<void> same = check_blocks(); !same) return same;
  const Result<std::uint64_t> swept = heap_->sweep();
  if (!swept) return swept.error();
  leaked_blocks_freed_ = *swept;
  ready_ = true;
  return {};
}

std::uint64_t HeaderPool::huge_page_bytes() const {
  std::uint64_t sum = 0;
  for (unsigned n = 0; n < parts(); ++n)
    sum += perdure::huge_page_bytes(part(n).data(), part(n).size());
  return sum;
}

}  // namespace perdure
