//! ARCTIC's concurrent map of 64-bit keys and values behind the functions of arctic.h.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use arctic::{ConcurrentMap, Order};

type Map = ConcurrentMap<u64, u64>;

/// Counts what the map takes from the system's allocator, so that its memory can be compared.
struct Counting;

static TAKEN: AtomicUsize = AtomicUsize::new(0);

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.fetch_add(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[unsafe(no_mangle)]
pub extern "C" fn arctic_create() -> *mut Map {
    Box::into_raw(Box::new(Map::default()))
}

/// # Safety
/// `map` comes from `arctic_create`, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arctic_destroy(map: *mut Map) {
    drop(unsafe { Box::from_raw(map) });
}

/// Bytes in use by all maps of the process.
#[unsafe(no_mangle)]
pub extern "C" fn arctic_bytes() -> usize {
    TAKEN.load(Ordering::Relaxed)
}

/// # Safety
/// `map` comes from `arctic_create`; likewise below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arctic_insert(map: &Map, key: u64, value: u64) -> bool {
    map.insert(key, value).is_ok()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arctic_upsert(map: &Map, key: u64, value: u64) {
    map.upsert(key, value);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arctic_update(map: &Map, key: u64, value: u64) -> bool {
    map.update(&key, value).is_ok()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arctic_remove(map: &Map, key: u64) -> bool {
    map.remove(&key).is_some()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arctic_lookup(map: &Map, key: u64, value: &mut u64) -> bool {
    match map.get(&key) {
        Some(found) => {
            *value = *found;
            true
        }
        None => false,
    }
}

/// Copies up to `count` records from `from` on, ascending, as pairs of words; returns how many.
///
/// # Safety
/// `records` has room for `2 * count` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arctic_scan(
    map: &Map,
    from: u64,
    count: usize,
    records: *mut u64,
) -> usize {
    let range = map.range(from..);
    let mut taken = 0;
    for (key, value) in range.entries(Order::Ascend).take(count) {
        unsafe {
            records.add(2 * taken).write(key);
            records.add(2 * taken + 1).write(value);
        }
        taken += 1;
    }
    taken
}
