//! Using up one thing after another, until a limit of the host says stop.

use std::hint::black_box;
use std::time::Duration;

use stokehold_sdk::{Failure, context};

/// Loops for ever. The counter is looked at, so that the loop is not optimised away.
pub(crate) fn spin() -> ! {
    let mut count: u64 = 0;
    loop {
        count = black_box(count.wrapping_add(1));
    }
}

/// Takes a megabyte at a time and writes to each page of it.
pub(crate) fn allocate() -> ! {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    loop {
        kept.push(black_box(vec![1; 1024 * 1024]));
        black_box(&kept);
    }
}

/// Calls itself until the machine's stack is full, with little kept for each call. The limit only
/// keeps the compiler from seeing that it never ends.
pub(crate) fn stack(depth: u64) -> u64 {
    if black_box(depth) == u64::MAX {
        return 0;
    }
    stack(depth + 1).wrapping_add(depth)
}

/// The same with a kilobyte kept for each call, on the stack that Rust has in the module's memory:
/// that one ends first, at the bottom of the memory.
pub(crate) fn frames(depth: u64) -> u64 {
    let kept = black_box([depth; 128]);
    if black_box(depth) == u64::MAX {
        return 0;
    }
    frames(depth + 1).wrapping_add(kept[black_box(7)])
}

/// Divides by zero. Rust checks every division, so this is a panic with its message; the bare trap
/// is in `traps.wat`.
pub(crate) fn divide() -> i32 {
    black_box(1) / black_box(0)
}

/// Waits until someone asks the job to stop.
pub(crate) fn until_cancelled() -> Failure {
    loop {
        if let Some(reason) = context::cancelled() {
            return Failure::cancel(reason);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
