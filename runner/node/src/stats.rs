//! What a node counts about itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the node's start. Each only grows, but for `running`.
#[derive(Debug, Default)]
pub struct Stats {
    claimed: AtomicU64,
    ended: AtomicU64,
    applied: AtomicU64,
    stale: AtomicU64,
    handed_back: AtomicU64,
    leases_lost: AtomicU64,
}

macro_rules! counters {
    ($($name:ident, $add:ident: $text:literal;)*) => {
        impl Stats {
            $(
                #[doc = $text]
                pub fn $name(&self) -> u64 {
                    self.$name.load(Ordering::Relaxed)
                }
                pub(crate) fn $add(&self, count: usize) {
                    self.$name.fetch_add(count as u64, Ordering::Relaxed);
                }
            )*
        }
    };
}

counters! {
    claimed, add_claimed: "Jobs claimed.";
    ended, add_ended: "Attempts that ended here, however.";
    applied, add_applied: "Outcomes that took effect.";
    stale, add_stale: "Outcomes refused because the claim was no longer this node's.";
    handed_back, add_handed_back: "Jobs given back before their handler started.";
    leases_lost, add_leases_lost: "Registrations lost to a lease that ran out.";
}
