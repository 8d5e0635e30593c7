//! Memory of one attempt: a sum over all its memories, and what was denied.

use stokehold_domain::EngineLimits;
use wasmtime::ResourceLimiter;

/// Instances, tables and memories of one attempt; a componentised Python handler has dozens of
/// instances. The engine refuses larger components when they are compiled.
const MAX_INSTANCES: usize = 256;

/// Counts memory and says no. wasmtime's own limits are per memory; this is their sum.
#[derive(Debug)]
pub(crate) struct Ledger {
    most_bytes: u64,
    in_use_bytes: u64,
    peak_bytes: u64,
    table_elements: usize,
    denied: Option<Denied>,
}

/// A growth that was not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// Linear memory, in bytes.
    Memory { asked_for_bytes: u64, in_use_bytes: u64, most_bytes: u64 },
    /// Table elements over all tables.
    Table { asked_for: u64, most: u64 },
}

impl Ledger {
    pub(crate) fn new(most_bytes: u64) -> Self {
        Ledger { most_bytes, in_use_bytes: 0, peak_bytes: 0, table_elements: 0, denied: None }
    }

    pub(crate) fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    pub(crate) fn in_use_bytes(&self) -> u64 {
        self.in_use_bytes
    }

    /// The last growth that was denied.
    pub(crate) fn denied(&self) -> Option<Denied> {
        self.denied
    }
}

impl ResourceLimiter for Ledger {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // A `memory.grow` by -1 pages arrives as a wish for 2^48 bytes.
        let more = (desired as u64).saturating_sub(current as u64);
        let total = self.in_use_bytes.saturating_add(more);
        if total > self.most_bytes {
            self.denied = Some(Denied::Memory {
                asked_for_bytes: more,
                in_use_bytes: self.in_use_bytes,
                most_bytes: self.most_bytes,
            });
            return Ok(false);
        }
        if maximum.is_some_and(|maximum| desired > maximum) {
            // The guest's own maximum: it will be refused after this, and is not for us to count.
            return Ok(false);
        }
        self.in_use_bytes = total;
        self.peak_bytes = self.peak_bytes.max(total);
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self.table_elements.saturating_add(desired.saturating_sub(current));
        if total > EngineLimits::TABLE_ELEMENTS {
            self.denied = Some(Denied::Table {
                asked_for: total as u64,
                most: EngineLimits::TABLE_ELEMENTS as u64,
            });
            return Ok(false);
        }
        self.table_elements = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        MAX_INSTANCES
    }

    fn tables(&self) -> usize {
        MAX_INSTANCES
    }

    fn memories(&self) -> usize {
        MAX_INSTANCES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_are_summed_and_a_denied_wish_is_remembered() {
        let mut ledger = Ledger::new(100);
        assert!(ledger.memory_growing(0, 60, None).unwrap());
        assert!(!ledger.memory_growing(0, 60, None).unwrap());
        assert!(ledger.memory_growing(0, 40, None).unwrap());
        assert!(!ledger.memory_growing(40, usize::MAX, None).unwrap());
        assert_eq!((ledger.peak_bytes(), ledger.in_use_bytes()), (100, 100));
        assert!(matches!(ledger.denied(), Some(Denied::Memory { in_use_bytes: 100, .. })));
    }
}
