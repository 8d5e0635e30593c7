//! How a node is set up.

use std::time::Duration;

/// Settings of one node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// A name for people, such as the host's.
    pub name: String,
    /// The queues it serves; `None` serves all.
    pub queues: Option<Vec<String>>,
    /// Attempts it runs at once. The sandbox needs as many slots.
    pub slots: usize,
    /// The most jobs in one claim and the most outcomes in one flush. More is faster and rougher: a
    /// node that dies has up to two batches in its hands that were not started or not written.
    pub batch: usize,
    /// Listen for wake-up hints. Without them work is found at the next look, and everything works
    /// through a pooler that cannot pass notifications on.
    pub wake_ups: bool,
    /// How long the lease lasts without a beat, by the database's clock.
    pub lease: Duration,
    /// How often the lease is renewed.
    pub beat: Duration,
    /// The node stops its own instances when its last acknowledged beat was sent this long ago.
    pub self_fence: Duration,
    /// How often an idle node looks for what changes by itself.
    pub tick: Duration,
    /// How long running jobs may go on after the node was told to stop, before they are handed back.
    pub grace: Duration,
}

/// The most attempts at once that a node can be configured for.
const MAX_SLOTS: usize = 10_000;

/// The largest batch that a node can be configured for.
const MAX_BATCH: usize = 5_000;
/// Connections beside those for claims and flushes: looking, logs, modules, upkeep.
const OTHER_CONNECTIONS: usize = 3;

impl Default for NodeConfig {
    fn default() -> Self {
        NodeConfig {
            name: "runner".to_owned(),
            queues: None,
            slots: 32,
            batch: 500,
            wake_ups: true,
            lease: Duration::from_secs(10),
            beat: Duration::from_secs(2),
            self_fence: Duration::from_secs(7),
            tick: Duration::from_secs(1),
            grace: Duration::from_secs(25),
        }
    }
}

/// A setting outside its range, or settings that do not fit each other.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct InvalidNodeConfig(String);

impl NodeConfig {
    /// Claims under way at once: two, so that the next one works while a commit waits for the disk, or
    /// as many as it takes to keep the slots busy when batches are small.
    pub(crate) fn claims_at_once(&self) -> usize {
        (self.slots / self.batch).clamp(4, 16)
    }

    /// Flushes under way at once.
    pub(crate) fn flushes_at_once(&self) -> usize {
        (self.slots / self.batch).clamp(4, 16)
    }

    /// Connections to the database that the node can use at once, beside those of its lease and its
    /// listener.
    pub fn connections(&self) -> u32 {
        let all = self.claims_at_once() + self.flushes_at_once() + OTHER_CONNECTIONS;
        u32::try_from(all).unwrap_or(u32::MAX)
    }

    /// Refuses what cannot work, naming the numbers.
    pub fn check(&self) -> Result<(), InvalidNodeConfig> {
        let wrong = |text: String| Err(InvalidNodeConfig(text));
        if self.slots == 0 || self.slots > MAX_SLOTS {
            return wrong(format!("slots is {}: 1 to {MAX_SLOTS} is allowed", self.slots));
        }
        if self.batch == 0 || self.batch > MAX_BATCH {
            return wrong(format!("batch is {}: 1 to {MAX_BATCH} is allowed", self.batch));
        }
        if self.name.is_empty() || self.name.len() > 200 {
            return wrong(format!("the runner's name has {} bytes: 1 to 200", self.name.len()));
        }
        if self.beat.is_zero() || self.tick.is_zero() {
            return wrong("beat and tick must be longer than zero".to_owned());
        }
        if !(self.beat * 2 <= self.self_fence && self.self_fence < self.lease) {
            return wrong(format!(
                "a beat every {:?}, self-fence after {:?} and a lease of {:?} do not fit: \
                 two beats must fit into the self-fence time, and that into the lease",
                self.beat, self.self_fence, self.lease
            ));
        }
        for queue in self.queues.iter().flatten() {
            stokehold_domain::check_name("queue", queue)
                .map_err(|error| InvalidNodeConfig(error.to_string()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_and_a_lease_shorter_than_the_fence_is_refused() {
        NodeConfig::default().check().unwrap();
        let short = NodeConfig { lease: Duration::from_secs(5), ..NodeConfig::default() };
        assert!(short.check().unwrap_err().to_string().contains("do not fit"));
        let queues = Some(vec!["a/b".to_owned()]);
        assert!(NodeConfig { queues, ..NodeConfig::default() }.check().is_err());
    }
}
