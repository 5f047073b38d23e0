#include "cli/engine_pool.h"
#include "cli/values.h"
#include "core/units.h"
#include "pool/occupant.h"

namespace perdure::cli {
namespace {

Error no_pool(const std::string& path) {
  return {ErrorCode::not_found, "there is no pool", path,
          "add --create SIZE to make one, such as --create 1GiB"};
}

// What the library's errors name, and what it is here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> terms = {
    {{"PoolOptions::path", "path"},
     {"PoolOptions::bytes", "--create"},
     {"PoolOptions::overwrite", "--create at another path"},
     {"Pool::create", "--create SIZE"},
     {"Pool::open", "perdure serve"},
     {"IndexRegistry::find", "--engine-index"}}};

Error in_our_terms(Error error) {
  for (std::string* const text : {&error.what, &error.where, &error.remedy})
    for (const auto& [theirs, ours] : terms)
      for (std::size_t at = 0; (at = text->find(theirs, at)) != std::string::npos;
           at += ours.size())
        text->replace(at, theirs.size(), ours);
  return error;
}

Result<std::unique_ptr<Pool>> open_or_create(const EnginePoolOptions& options, bool is_new) {
  PoolOptions wanted;
  wanted.path = options.path;
  if (!is_new) return Pool::open(wanted);
  if (options.create_bytes < Pool::min_pool_bytes)
    return usage("a pool of " + format_bytes(options.create_bytes) + " is too small", "--create",
                 "give at least " + format_bytes(Pool::min_pool_bytes));
  wanted.bytes = options.create_bytes;
  return Pool::create(wanted);
}

}  // namespace

Result<std::unique_ptr<EnginePool>> EnginePool::open(const EnginePoolOptions& options) {
  pm::configure(options.durability);
  pm::configure_simd(pm::detect_simd_level());
  const auto occupant = occupant_of(options.path);
  if (!occupant) return occupant.error();
  const bool is_new = *occupant == Occupant::nothing;
  if (is_new && options.create_bytes == 0) return no_pool(options.path);
  auto pool = open_or_create(options, is_new);
  if (!pool) return in_our_terms(pool.error());
  const auto made = is_new ? MadeFile::at(options.path) : std::nullopt;
  std::unique_ptr<EnginePool> opened(new EnginePool(std::move(pool).value()));
  auto engine = opened->open_engine(options, is_new);
  if (engine) return opened;
  if (made) made->remove();
  return in_our_terms(engine.error());
}

EnginePool::~EnginePool() = default;

Result<void> EnginePool::open_engine(const EnginePoolOptions& options, bool is_new) {
  engine::StoreOptions wanted;
  wanted.threads = options.threads;
  if (!options.index.empty()) wanted.index = options.index;
  // A process that was killed between the two steps of creation left a pool without roots.
  const bool is_empty = is_new || (options.create_bytes != 0 && pool_->roots().empty());
  if (!is_empty && !options.index.empty())
    return usage("the pool has its index already", "--engine-index",
                 "leave it out, or serve a new pool with --create");
  auto engine =
      is_empty ? engine::Engine::create(*pool_, wanted) : engine::Engine::open(*pool_, wanted);
  if (!engine) return engine.error();
  engine_ = std::move(engine).value();
  return {};
}

Result<void> EnginePool::close() {
  engine_->settle();
  engine_.reset();
  return pool_->close();
}

}  // namespace perdure::cli
