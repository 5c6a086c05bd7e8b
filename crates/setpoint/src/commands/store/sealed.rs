//! Readers of sealed data that have no keys: they count it, or copy it as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::{Resource, Revision};
use setpoint_store::Sealer;
use setpoint_store::seal::{Context, OpenError, SealedBytes, SealedWrite};

/// Writes that were left sealed, by resource and path: the newest of each object.
pub type SealedWrites = BTreeMap<(Resource, String), (Revision, SealedWrite)>;

/// Sealer that leaves writes sealed. It counts them by key, and keeps the newest of each object.
#[derive(Default)]
pub struct Unopened {
    counts: Mutex<BTreeMap<Arc<str>, u64>>,
    writes: Option<Mutex<SealedWrites>>,
}

impl Unopened {
    /// Returns one that keeps the writes.
    pub fn keeping() -> Unopened {
        Unopened { writes: Some(Mutex::default()), ..Unopened::default() }
    }

    /// Returns the number of writes by key, and starts again.
    pub fn take_counts(&self) -> BTreeMap<Arc<str>, u64> {
        std::mem::take(&mut self.counts.lock())
    }

    /// Returns the kept writes.
    pub fn take_writes(&self) -> SealedWrites {
        self.writes.as_ref().map(|writes| std::mem::take(&mut *writes.lock())).unwrap_or_default()
    }
}

impl Sealer for Unopened {
    fn write_key(&self, _: &Resource) -> Option<Arc<str>> {
        None
    }

    fn check_writable(&self, _: &Resource) -> Result<(), String> {
        Ok(())
    }

    fn seal(&self, _: &Context<'_>, _: &[u8]) -> Result<Option<SealedBytes>, String> {
        Ok(None)
    }

    fn open(&self, context: &Context<'_>, sealed: &SealedBytes) -> Result<Option<Vec<u8>>, OpenError> {
        *self.counts.lock().entry(Arc::clone(&sealed.key)).or_default() += 1;
        if let Some(writes) = &self.writes {
            let key = (context.resource.clone(), context.path.to_owned());
            let write = SealedWrite { tag: context.tag, sealed: sealed.clone() };
            writes.lock().insert(key, (context.revision, write));
        }
        Ok(None)
    }
}
