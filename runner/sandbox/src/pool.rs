//! The pool that instances come from: how large it is, whether the process has room for it, and how
//! much of it is in use.

use std::fs;

use stokehold_domain::EngineLimits;
use wasmtime::{Enabled, Engine, PoolingAllocationConfig};

use crate::{SandboxConfig, StartError};

/// Bytes of a slot that are reset by writing zeros instead of by unmapping. Measured on two cores
/// (48.0.8): an instance that touches 16 pages takes 2.5 µs with 64 KiB and 33 µs with none.
const KEEP_RESIDENT_BYTES: usize = 64 << 10;
/// Slots beyond the configured ones, for probes while all are taken.
const SPARE_SLOTS: u32 = 2;
/// Address space of one linear memory with its guard, in bytes: wasmtime's defaults on 64-bit.
const MEMORY_SLOT_BYTES: u64 = (4 << 30) + (32 << 20);
/// Address space of one element of a table, in bytes.
const TABLE_ELEMENT_BYTES: u64 = 16;
/// Address space of one fibre stack, in bytes, guard included.
const STACK_SLOT_BYTES: u64 = (2 << 20) + (64 << 10);

fn memories(slots: u32) -> u32 {
    (4 * slots).max(64)
}

fn tables(slots: u32) -> u32 {
    (8 * slots).max(128)
}

fn stacks(slots: u32) -> u32 {
    slots + 8
}

fn slots(settings: &SandboxConfig) -> u32 {
    u32::try_from(settings.slots).unwrap_or(u32::MAX / 64)
}

/// The numbers of the pool. What concerns one module is a limit on uploads, found when the module
/// is made; what concerns the total follows from the slots.
pub(crate) fn shape(settings: &SandboxConfig) -> PoolingAllocationConfig {
    let slots = slots(settings);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(slots + SPARE_SLOTS)
        .total_core_instances((16 * slots).max(256))
        .max_core_instances_per_component(200)
        .total_memories(memories(slots))
        .max_memories_per_component(16)
        .max_memories_per_module(2)
        .total_tables(tables(slots))
        .max_tables_per_component(64)
        .max_tables_per_module(4)
        .table_elements(EngineLimits::TABLE_ELEMENTS)
        .max_core_instance_size(10 << 20)
        .max_component_instance_size(4 << 20)
        .max_memory_size(usize::try_from(settings.max_memory_bytes).unwrap_or(usize::MAX))
        .total_stacks(stacks(slots))
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(KEEP_RESIDENT_BYTES)
        .async_stack_keep_resident(KEEP_RESIDENT_BYTES)
        // Where the kernel can say which pages a guest wrote (Linux 6.7), only those are reset.
        .pagemap_scan(Enabled::Auto)
        .max_unused_warm_slots(slots)
        .decommit_batch_size(16);
    pool
}

fn address_space_bytes(slots: u32) -> u64 {
    u64::from(memories(slots)) * MEMORY_SLOT_BYTES
        + u64::from(tables(slots)) * EngineLimits::TABLE_ELEMENTS as u64 * TABLE_ELEMENT_BYTES
        + u64::from(stacks(slots)) * STACK_SLOT_BYTES
}

/// Refuses a pool that the process has no address space for. There is no falling back to another
/// allocator: that would change limits and speed without a word.
pub(crate) fn check_address_space(settings: &SandboxConfig) -> Result<(), StartError> {
    let limits = fs::read_to_string("/proc/self/limits").ok();
    let cpus = fs::read_to_string("/proc/cpuinfo").ok();
    let known = [
        (limits.as_deref().and_then(process_limit_bytes), "the process limit (`ulimit -v`)"),
        (cpus.as_deref().and_then(processor_bytes), "the processor"),
    ];
    for (available, origin) in known {
        if let Some(available) = available {
            fits(slots(settings), available, origin)?;
        }
    }
    Ok(())
}

fn fits(slots: u32, available: u64, origin: &'static str) -> Result<(), StartError> {
    let needed = address_space_bytes(slots);
    if needed <= available {
        return Ok(());
    }
    let fitting = (1..slots).rev().find(|fewer| address_space_bytes(*fewer) <= available);
    Err(StartError::AddressSpace {
        slots: slots as usize,
        needed_gib: needed >> 30,
        available_gib: available >> 30,
        origin,
        fitting: fitting.unwrap_or(0) as usize,
    })
}

/// The soft limit in `/proc/self/limits`, unless it is unlimited.
fn process_limit_bytes(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// User space of the processor: half of its virtual addresses, and no more than 47 bits, which is all
/// that the kernel hands out without being asked for more.
fn processor_bytes(cpus: &str) -> Option<u64> {
    let line = cpus.lines().find(|line| line.starts_with("address sizes"))?;
    let (_, virtual_part) = line.split_once(',')?;
    let bits: u32 = virtual_part.split_whitespace().next()?.parse().ok()?;
    1_u64.checked_shl(bits.saturating_sub(1).min(47))
}

/// What is taken from the pool now, and what is kept warm. All but the warm counts return to zero
/// when nothing runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolMetrics {
    /// Attempts that hold a slot.
    pub running: u64,
    /// Slots in all.
    pub slots: u64,
    /// Instances of core modules.
    pub core_instances: u64,
    /// Instances of components.
    pub component_instances: u64,
    /// Linear memories.
    pub memories: u64,
    /// Tables.
    pub tables: u64,
    /// Fibre stacks.
    pub stacks: u64,
    /// Unused memories that are kept for the next instance of their module.
    pub warm_memories: u64,
    /// Bytes resident in unused memories, tables and stacks.
    pub warm_bytes: u64,
    /// Lines that could not be written to the guest log file.
    pub guest_log_failures: u64,
}

impl PoolMetrics {
    /// True when no attempt holds anything.
    pub fn is_idle(&self) -> bool {
        let held = [self.running, self.core_instances, self.component_instances];
        held.iter().sum::<u64>() + self.memories + self.tables + self.stacks == 0
    }
}

pub(crate) fn metrics(engine: &Engine) -> PoolMetrics {
    let Some(pool) = engine.pooling_allocator_metrics() else { return PoolMetrics::default() };
    let warm = pool.unused_memory_bytes_resident()
        + pool.unused_table_bytes_resident()
        + pool.unused_stack_bytes_resident().unwrap_or(0);
    PoolMetrics {
        core_instances: pool.core_instances(),
        component_instances: pool.component_instances(),
        memories: pool.memories() as u64,
        tables: pool.tables() as u64,
        stacks: pool.stacks() as u64,
        warm_memories: pool.unused_warm_memories().into(),
        warm_bytes: warm as u64,
        ..PoolMetrics::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_without_room_is_refused_with_the_numbers_and_the_knob() {
        let error = fits(1000, 1 << 40, "the process limit (`ulimit -v`)").unwrap_err().to_string();
        assert!(error.contains("1000 attempts") && error.contains("ulimit -v"), "{error}");
        assert!(error.contains("allows 1024 GiB") && error.contains("`slots`"), "{error}");
        assert!(fits(1000, 1 << 47, "the processor").is_ok());
    }

    #[test]
    fn the_limits_of_process_and_processor_are_read() {
        let limited = "Limit  Soft Limit  Hard Limit  Units\n\
                       Max address space         8388608000           unlimited            bytes\n";
        assert_eq!(process_limit_bytes(limited), Some(8_388_608_000));
        let unlimited = "Max address space         unlimited            unlimited            bytes";
        assert_eq!(process_limit_bytes(unlimited), None);
        let line = "model\t: x\naddress sizes\t: 46 bits physical, 48 bits virtual\n";
        assert_eq!(processor_bytes(line), Some(1 << 47));
        let wide = "address sizes\t: 52 bits physical, 57 bits virtual\n";
        assert_eq!(processor_bytes(wide), Some(1 << 47));
    }
}
