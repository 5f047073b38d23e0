// ARCTIC's map (src/lib.rs) from C++. Functions whose names say what an index's operation is called
// return whether it took place.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
struct ArcticMap;
ArcticMap* arctic_create();
void arctic_destroy(ArcticMap* map);
/// Bytes in use by all maps of the process.
std::size_t arctic_bytes();
bool arctic_insert(ArcticMap* map, std::uint64_t key, std::uint64_t value);
void arctic_upsert(ArcticMap* map, std::uint64_t key, std::uint64_t value);
bool arctic_update(ArcticMap* map, std::uint64_t key, std::uint64_t value);
bool arctic_remove(ArcticMap* map, std::uint64_t key);
bool arctic_lookup(ArcticMap* map, std::uint64_t key, std::uint64_t* value);
/// Up to `count` records from `from` on, ascending; `records` has room for so many pairs of words.
std::size_t arctic_scan(ArcticMap* map, std::uint64_t from, std::size_t count,
                        std::uint64_t* records);
}
