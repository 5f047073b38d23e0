#include "lockfree/memory/node_slab.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "core/assert.h"
#include "core/rng.h"
#include "index/common/index_root.h"

namespace perdure::lockfree {
namespace {

/// Nodes of a slab in DRAM begin after an unused line, because offset 0 is no node.
constexpr std::uint64_t dram_start = pm::cache_line_bytes;

std::uint64_t* chunks_of(SlabTop& top) noexcept {
  return reinterpret_cast<std::uint64_t*>(&top + 1);
}

std::uint64_t top_bytes(std::uint64_t chunks) noexcept {
  return sizeof(SlabTop) + chunks * sizeof(std::uint64_t);
}

/// Nodes in a chunk of a slab with so many: a power of two.
std::uint64_t most_in_chunk(std::uint64_t nodes, std::uint64_t stride) noexcept {
  return std::min(std::bit_floor(nodes), Heap::max_block_bytes / stride);
}

std::uint64_t checksum_of(SlabTop& top) noexcept {
  std::uint64_t sum = mix64(top.nodes);
  for (const std::uint64_t word : {top.chunk_nodes, top.chunks, top.logs})
    sum = mix64(sum ^ word) + 0x9e3779b97f4a7c15ULL;
  for (const std::uint64_t offset : std::span(chunks_of(top), top.chunks))
    sum = mix64(sum ^ offset) + 0x9e3779b97f4a7c15ULL;
  return sum;
}

Error damaged(const Pool& pool, const char* what) {
  return {ErrorCode::corrupt, std::string("the node slab is damaged: ") + what, pool.path(),
          "restore the pool from a copy, or create a new one with PoolOptions::overwrite"};
}

}  // namespace

NodeSlab::NodeSlab(const SlabPlan& plan) noexcept
    : stride_shift_(static_cast<unsigned>(std::countr_zero(plan.stride))),
      arenas_(plan.arenas),
      log_bytes_(plan.log_bytes) {
  PERDURE_ASSERT(plan.stride == sizeof(Node) || plan.stride == 2 * sizeof(Node));
}

void NodeSlab::begin(std::uint64_t nodes) {
  nodes_ = static_cast<std::uint32_t>(nodes);
  free_ = std::make_unique<FreeNodes>(nodes_);
  spread();
  reclaimer_ = std::make_unique<Reclaimer>(*free_);
}

Result<std::unique_ptr<NodeSlab>> NodeSlab::in_dram(const SlabPlan& plan, bool huge_pages) {
  constexpr std::uint64_t page = 4096;
  const std::uint64_t nodes = std::bit_ceil(std::max(plan.nodes, least_nodes));
  const std::uint64_t bytes = (dram_start + nodes * plan.stride + page - 1) / page * page;
  Result<Mapping> memory = Mapping::anonymous(bytes, 0);
  if (!memory) return memory.error();
  std::unique_ptr<NodeSlab> slab(new NodeSlab(plan));
  slab->memory_ = std::move(memory).value();
  slab->base_ = slab->memory_.base();
  if (huge_pages) request_huge_pages(slab->base_, bytes, Medium::anonymous);
  slab->chunk_ = {dram_start};
  slab->chunk_shift_ = static_cast<unsigned>(std::countr_zero(nodes));
  slab->top_ = &slab->volatile_top_;
  slab->begin(nodes);
  return slab;
}

bool NodeSlab::reserve(Pool& pool, std::vector<Reservation>& blocks, const SlabPlan& plan,
                       std::uint64_t chunks) {
  Heap& heap = pool.heap();
  const bool fits = chunks * chunk_nodes() < plan.nodes;  // what there is
  for (std::uint64_t n = 0; n < chunks; ++n) {
    blocks.push_back(heap.reserve(chunk_bytes()));
    if (blocks.back()) continue;
    blocks.pop_back();
    if (!fits || blocks.empty()) return false;
    break;
  }
  for (const Reservation& block : blocks) chunk_.push_back(block.offset);
  if (plan.log_bytes != 0) {
    blocks.push_back(heap.reserve(plan.log_bytes));
    if (!blocks.back()) return false;
  }
  blocks.push_back(heap.reserve(top_bytes(chunk_.size())));
  return static_cast<bool>(blocks.back());
}

/// N2
void NodeSlab::write(const SlabPlan& plan) {
  std::array<std::uint64_t, 512> words{};  // of free nodes
  for (std::size_t i = 0; i < words.size(); i += plan.stride / 8) {
    words[i + 2] = plan.free.next;
    words[i + 3] = plan.free.meta;
  }
  const std::uint64_t bytes = chunk_bytes();
  for (const std::uint64_t chunk : chunk_)
    for (std::uint64_t done = 0; done < bytes; done += sizeof words)
      pm::stream(base_ + chunk + done, words.data(), std::min(sizeof words, bytes - done));
  words.fill(0);
  for (std::uint64_t done = 0; done < plan.log_bytes; done += sizeof words)
    pm::stream(base_ + top_->logs + done, words.data(),
               std::min<std::uint64_t>(sizeof words, plan.log_bytes - done));
  pm::flush(top_, top_bytes(chunk_.size()));
  pm::fence();
}

Result<std::unique_ptr<NodeSlab>> NodeSlab::create(Pool& pool, const SlabPlan& plan) {
  Heap& heap = pool.heap();
  const std::uint64_t room = heap.usage().free_bytes() / 4 * 3 / plan.stride;
  const std::uint64_t wanted = std::clamp(std::min(plan.nodes, room), least_nodes, most_nodes);
  for (std::uint64_t size = most_in_chunk(wanted, plan.stride); size >= least_nodes; size /= 2) {
    std::unique_ptr<NodeSlab> slab(new NodeSlab(plan));
    slab->pool_ = &pool;
    slab->base_ = pool.base();
    slab->chunk_shift_ = static_cast<unsigned>(std::countr_zero(size));
    std::vector<Reservation> blocks;
    if (!slab->reserve(pool, blocks, plan, (wanted + size - 1) / size)) {
      for (Reservation& block : blocks)
        if (block) heap.cancel(block);
      continue;
    }
    slab->top_offset_ = blocks.back().offset;
    slab->top_ = pool.at<SlabTop>(slab->top_offset_);
    SlabTop& top = *slab->top_;
    top.nodes = slab->chunk_.size() * size;
    top.chunk_nodes = size;
    top.chunks = slab->chunk_.size();
    top.logs = plan.log_bytes != 0 ? blocks[blocks.size() - 2].offset : 0;
    top.loading.store(0, std::memory_order_relaxed);
    top.head.store(0, std::memory_order_relaxed);
    std::ranges::copy(slab->chunk_, chunks_of(top));
    top.checksum = checksum_of(top);
    slab->write(plan);
    heap.publish(blocks);
    slab->begin(top.nodes);
    return slab;
  }
  return no_room_for("the nodes of a list", pool);
}

void NodeSlab::destroy() {
  Heap& heap = pool_->heap();
  for (const std::uint64_t chunk : chunk_) heap.free(chunk, chunk_bytes());
  if (top_->logs != 0) heap.free(top_->logs, log_bytes_);
  heap.free(top_offset_, top_bytes(chunk_.size()));
}

Result<std::unique_ptr<NodeSlab>> NodeSlab::recover(Pool& pool, std::uint64_t offset,
                                                    const SlabPlan& plan) {
  if (!pool.contains(offset, sizeof(SlabTop))) return damaged(pool, "its top lies nowhere");
  SlabTop& top = *pool.at<SlabTop>(offset);
  if (top.chunks == 0 || top.chunks > most_nodes / least_nodes ||
      !pool.contains(offset, top_bytes(top.chunks)) || top.checksum != checksum_of(top))
    return damaged(pool, "its checksum does not match");
  Heap& heap = pool.heap();
  bool sound = heap.mark(offset, top_bytes(top.chunks));
  std::unique_ptr<NodeSlab> slab(new NodeSlab(plan));
  slab->pool_ = &pool;
  slab->base_ = pool.base();
  slab->chunk_shift_ = static_cast<unsigned>(std::countr_zero(top.chunk_nodes));
  slab->top_offset_ = offset;
  slab->top_ = &top;
  const std::uint64_t chunk_bytes = slab->chunk_bytes();
  for (const std::uint64_t chunk : std::span(chunks_of(top), top.chunks)) {
    sound = sound && pool.contains(chunk, chunk_bytes) && heap.mark(chunk, chunk_bytes);
    slab->chunk_.push_back(chunk);
  }
  if (top.logs != 0)
    sound = sound && pool.contains(top.logs, plan.log_bytes) && heap.mark(top.logs, plan.log_bytes);
  if (!sound) return damaged(pool, "its blocks lie where none can lie");
  slab->begin(top.nodes);
  return slab;
}

std::uint32_t NodeSlab::node_at(std::uint64_t offset) const noexcept {
  const std::uint64_t bytes = chunk_bytes();
  const auto holds = [&](std::uint64_t n) { return offset - chunk_[n] < bytes; };
  std::uint64_t number = (offset - chunk_.front()) >> (chunk_shift_ + stride_shift_);  // in a row
  if (number >= chunk_.size() || !holds(number)) {
    number = 0;
    while (number < chunk_.size() && !holds(number)) ++number;
    if (number == chunk_.size()) return no_node;
  }
  const std::uint64_t inside = offset - chunk_[number];
  const std::uint64_t place = inside >> stride_shift_;
  if (place << stride_shift_ != inside) return no_node;
  return static_cast<std::uint32_t>(number * chunk_nodes() + place);
}

Result<void> NodeSlab::check_count(std::uint64_t reachable) const {
  const std::uint64_t used = nodes_ - free_->free_count();
  const std::uint64_t retired = reclaimer_->retired();
  if (used != reachable + retired)
    return Error{ErrorCode::corrupt,
                 std::to_string(used) + " nodes are in use, " + std::to_string(reachable) +
                     " are reachable and " + std::to_string(retired) + " retired",
                 "", ""};
  if (pool_ == nullptr || pool_->roots().size() != 1) return {};
  const std::uint64_t live = pool_->heap().usage().live_blocks;
  const std::uint64_t reached = blocks() + 1;  // the root's block
  if (live == reached) return {};
  return Error{
      ErrorCode::corrupt,
      std::to_string(live) + " blocks are live, " + std::to_string(reached) + " are reachable", "",
      ""};
}

std::uint64_t NodeSlab::dram_bytes() const noexcept {
  return free_->dram_bytes() + reclaimer_->dram_bytes() + memory_.bytes() +
         chunk_.size() * sizeof(std::uint64_t);
}

std::vector<MediaStruct> NodeSlab::media(std::uint64_t nodes, std::uint64_t stride,
                                         std::vector<MediaField> node_fields) {
  const std::uint64_t size = most_in_chunk(std::max(nodes, least_nodes), stride);
  std::vector<MediaField> fields;
  for (MediaField& field : node_fields) {
    field.name = "node[]." + field.name;
    field.count = static_cast<std::uint32_t>(size);
    field.stride = static_cast<std::uint32_t>(stride);
    fields.push_back(std::move(field));
  }
  return {{"chunk", size * stride, std::move(fields)},
          {"top",
           top_bytes(1),
           {{"nodes", offsetof(SlabTop, nodes), 8},
            {"logs", offsetof(SlabTop, logs), 8},
            {"loading", offsetof(SlabTop, loading), 8},
            {"checksum", offsetof(SlabTop, checksum), 8},
            {"head", offsetof(SlabTop, head), 8},
            {"chunk", sizeof(SlabTop), 8}}}};
}

}  // namespace perdure::lockfree
