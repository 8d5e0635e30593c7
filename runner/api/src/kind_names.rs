//! The names of kinds by their rows. Kinds are neither renamed nor deleted, so a name once read
//! holds.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use stokehold_domain::KindId;
use stokehold_queue::{Database, QueueError};

#[derive(Default)]
pub(crate) struct KindNames(RwLock<HashMap<KindId, String>>);

impl KindNames {
    /// The names of these kinds, in order; reads them all again when one is not known yet.
    pub(crate) async fn of(
        &self,
        database: &Database,
        kinds: &[KindId],
    ) -> Result<Vec<String>, QueueError> {
        if let Some(names) = self.known(kinds) {
            return Ok(names);
        }
        let all = database.kinds().await?;
        let all: HashMap<_, _> = all.into_iter().map(|kind| (kind.id, kind.name)).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = all;
        // One of more than the 10,000 kinds that are read is shown by its number.
        let names = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let name = |kind: &KindId| names.get(kind).cloned().unwrap_or_else(|| kind.to_string());
        Ok(kinds.iter().map(name).collect())
    }

    fn known(&self, kinds: &[KindId]) -> Option<Vec<String>> {
        let names = self.0.read().unwrap_or_else(PoisonError::into_inner);
        kinds.iter().map(|kind| names.get(kind).cloned()).collect()
    }
}
