//! Processor time and memory of processes, from `/proc`.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// The kernel counts in hundredths of a second, whatever its own clock: `USER_HZ` is part of its
/// interface.
const TICK: Duration = Duration::from_millis(10);

/// What `/proc/PID/stat` says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessStat {
    parent: i32,
    /// Of its own threads.
    own_ticks: u64,
    /// Of children that have ended and been waited for, and theirs.
    reaped_ticks: u64,
}

fn process_stat(pid: i32) -> Option<ProcessStat> {
    parse_process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_process(text: &str) -> Option<ProcessStat> {
    // The second field is the program's name in parentheses, which may itself hold any of these.
    let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_whitespace().collect();
    let number = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok());
    Some(ProcessStat {
        parent: fields.get(1)?.parse().ok()?,
        own_ticks: number(11)? + number(12)?,
        reaped_ticks: number(13)? + number(14)?,
    })
}

/// Processor time of a process itself.
pub(crate) fn of_process(pid: i32) -> Option<Duration> {
    process_stat(pid).map(|stat| ticks(stat.own_ticks))
}

/// Processor time of a process and all its descendants, ended ones included.
pub(crate) fn of_tree(root: i32) -> Option<Duration> {
    let mut stats = HashMap::new();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(stat) = process_stat(pid) {
            stats.insert(pid, stat);
        }
    }
    stats.get(&root)?;
    let belongs = |mut pid: i32| {
        // As deep as any tree of processes is, should the table be of two moments.
        for _ in 0..64 {
            if pid == root {
                return true;
            }
            match stats.get(&pid) {
                Some(stat) => pid = stat.parent,
                None => return false,
            }
        }
        false
    };
    let sum = stats.iter().filter(|(pid, _)| belongs(**pid));
    Some(ticks(sum.map(|(_, stat)| stat.own_ticks + stat.reaped_ticks).sum()))
}

/// The parent of a process whose command line begins with a word, else nothing: ids from another
/// machine, or from inside a container, may by chance be those of other processes here.
pub(crate) fn parent_of(pid: i32, command: &str) -> Option<i32> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    line.starts_with(command.as_bytes()).then(|| process_stat(pid))?.map(|stat| stat.parent)
}

/// Bytes of memory that a process has resident.
pub(crate) fn resident_bytes(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Processor time of the whole machine since it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// Spent on anything; what the host of a virtual machine took for others included.
    pub(crate) busy: Duration,
    /// Busy and idle together, over all cores.
    pub(crate) all: Duration,
}

impl Machine {
    /// Reads it.
    pub(crate) fn read() -> Option<Machine> {
        parse_machine(&fs::read_to_string("/proc/stat").ok()?)
    }
}

fn parse_machine(text: &str) -> Option<Machine> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; what guests used stands in user already.
    let fields: Vec<u64> = line.split_whitespace().take(8).flat_map(str::parse).collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal] = fields[..] else { return None };
    let busy = user + nice + system + irq + softirq + steal;
    Some(Machine { busy: ticks(busy), all: ticks(busy + idle + iowait) })
}

fn ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(TICK.as_millis() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_be_called_anything() {
        let text = "17 (a) b (c)) S 4 17 17 0 -1 4194560 1 2 3 4 50 60 7 8 20 0 1 0 99 1 1";
        let wanted = ProcessStat { parent: 4, own_ticks: 110, reaped_ticks: 15 };
        assert_eq!(parse_process(text), Some(wanted));
        assert_eq!(parse_process("17 (a"), None);
    }

    #[test]
    fn the_time_of_the_machine_is_busy_and_idle() {
        let text = "cpu  10 1 5 100 4 1 2 3 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        let machine = parse_machine(text).unwrap();
        assert_eq!(machine.busy, Duration::from_millis(220));
        assert_eq!(machine.all, Duration::from_millis(1260));
        assert_eq!(parse_machine("cpu 1 2\n"), None);
    }

    #[test]
    fn this_process_and_its_children_are_found() {
        let me = std::process::id().try_into().unwrap();
        assert!(of_tree(me).unwrap() >= of_process(me).unwrap());
        assert!(resident_bytes(me).unwrap() > 1 << 20);
        assert_eq!(of_tree(i32::MAX), None);
    }
}
