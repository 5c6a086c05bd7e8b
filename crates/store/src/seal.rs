//! Sealing: encryption of the records of chosen resources in the files of a log.
//!
//! The store knows no ciphers. A [`Sealer`] decides which resources are sealed and with which key; the log hands it the
//! value and the envelope of each write (labels, fields, cause), deletes included, and stores what it returns together
//! with the id of the key. The path, the resource and the revision stay readable, and are bound to the sealed bytes as
//! [`Context`]: sealed bytes that are moved to another object or revision cannot be opened. Memory holds records as they
//! are.
//!
//! Checkpoints are sealed with the key in use when they are written. So a checkpoint ends the need for older keys,
//! except for history. [`Sealing`] knows which records have been stored with another key.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_api::{Resource, Revision};
use thiserror::Error;

use crate::codec::{put_bytes, put_varint};
use crate::commit::Proposal;

/// Version of the context's encoding.
const CONTEXT_VERSION: u8 = 1;

/// Encryption of records. Shared by the writer, maintenance and readers.
pub trait Sealer: Send + Sync {
    /// Returns the id of the key that seals records of the resource now; `None` if they are stored as they are.
    fn write_key(&self, resource: &Resource) -> Option<Arc<str>>;

    /// Fails, with the reason, if puts of the resource must be rejected for want of a valid key.
    fn check_writable(&self, resource: &Resource) -> Result<(), String>;

    /// Seals the bytes of a write. Must not block: the writer calls it for each batch.
    ///
    /// # Errors
    /// If the cipher fails, which fails the store.
    fn seal(&self, context: &Context<'_>, plain: &[u8]) -> Result<Option<SealedBytes>, String>;

    /// Opens sealed bytes. Returns `None` to leave the write sealed, for readers that need no values. May block.
    fn open(&self, context: &Context<'_>, sealed: &SealedBytes) -> Result<Option<Vec<u8>>, OpenError>;
}

/// Sealed bytes with the id of their key.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedBytes {
    /// Id of the key, stored in clear.
    pub key: Arc<str>,
    /// Ciphertext.
    pub bytes: Bytes,
}

impl fmt::Debug for SealedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedBytes({}, {} bytes)", self.key, self.bytes.len())
    }
}

/// Write that sealed bytes belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context<'a> {
    /// Resource of the object.
    pub resource: &'a Resource,
    /// Path of the object.
    pub path: &'a str,
    /// Revision of the write.
    pub revision: Revision,
    /// Tag of the write: put or delete, and which optional parts it has.
    pub tag: u8,
}

impl Context<'_> {
    /// Returns the bytes to authenticate with the sealed ones.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.resource.as_str().len() + self.path.len() + 16);
        out.push(CONTEXT_VERSION);
        put_bytes(&mut out, self.resource.as_str().as_bytes());
        put_bytes(&mut out, self.path.as_bytes());
        put_varint(&mut out, self.revision.0);
        out.push(self.tag);
        out
    }
}

/// Reason for which sealed bytes cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The key is not configured.
    #[error("the key is not in the encryption configuration: put it back")]
    MissingKey,
    /// There is no encryption configuration.
    #[error("there is no encryption configuration: set --encryption-provider-config")]
    NoConfiguration,
    /// The key's service does not respond.
    #[error("the key cannot be used now: {0}")]
    Unavailable(String),
    /// The bytes have been changed, or belong to another object or revision.
    #[error("the sealed bytes are damaged, or belong to another object or another key of this name")]
    Damaged,
}

/// Sealer that opens nothing: writes stay sealed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeepSealed;

impl Sealer for KeepSealed {
    fn write_key(&self, _: &Resource) -> Option<Arc<str>> {
        None
    }

    fn check_writable(&self, _: &Resource) -> Result<(), String> {
        Ok(())
    }

    fn seal(&self, _: &Context<'_>, _: &[u8]) -> Result<Option<SealedBytes>, String> {
        Ok(None)
    }

    fn open(&self, _: &Context<'_>, _: &SealedBytes) -> Result<Option<Vec<u8>>, OpenError> {
        Ok(None)
    }
}

/// A sealer, and the knowledge about which stored records it would seal in another way now.
pub struct Sealing {
    sealer: Arc<dyn Sealer>,
    eras: Mutex<BTreeMap<Resource, Era>>,
}

/// Time since the key of a resource last changed.
#[derive(Clone, Debug, Default)]
struct Era {
    key: Option<Arc<str>>,
    /// Records at or before it may be stored with another key; zero if none is.
    stale_until: Revision,
}

/// Keys with which a checkpoint seals, taken when it is begun.
pub(crate) type CheckpointKeys = BTreeMap<Resource, Option<Arc<str>>>;

impl Sealing {
    pub(crate) fn new(sealer: Arc<dyn Sealer>) -> Sealing {
        Sealing { sealer, eras: Mutex::default() }
    }

    pub(crate) fn sealer(&self) -> &Arc<dyn Sealer> {
        &self.sealer
    }

    /// Fails if a put of the chain must be rejected. Returns its resource and the reason.
    pub(crate) fn check_writable(&self, chain: &Proposal) -> Result<(), (Resource, String)> {
        chain.predecessors().iter().try_for_each(|proposal| self.check_writable(proposal))?;
        let puts = chain.writes().filter(|write| write.body.is_some());
        let mut resources = puts.map(|write| write.key.resource());
        resources.try_for_each(|resource| {
            self.sealer.check_writable(resource).map_err(|reason| (resource.clone(), reason))
        })
    }

    /// Records that a write has been read that is stored with `key`.
    pub(crate) fn record_stored(&self, resource: &Resource, revision: Revision, key: Option<&str>) {
        let current = self.sealer.write_key(resource);
        let is_stale = key != current.as_deref();
        let mut eras = self.eras.lock();
        if !eras.contains_key(resource) {
            eras.insert(resource.clone(), Era::default());
        }
        if let Some(era) = eras.get_mut(resource) {
            era.key = current;
            if is_stale {
                era.stale_until = era.stale_until.max(revision);
            }
        }
    }

    /// Records that a write after `last` is about to be stored with the current key.
    pub(crate) fn record_write(&self, resource: &Resource, last: Revision) {
        let current = self.sealer.write_key(resource);
        let mut eras = self.eras.lock();
        match eras.get_mut(resource) {
            Some(era) if era.key == current => {}
            Some(era) => *era = Era { key: current, stale_until: last },
            None => {
                eras.insert(resource.clone(), Era { key: current, stale_until: Revision::ZERO });
            }
        }
    }

    /// Returns the keys with which a checkpoint at `revision` seals: those of its resources, and of others that had
    /// records.
    pub(crate) fn begin_checkpoint<'a>(
        &self,
        resources: impl Iterator<Item = &'a Resource>,
        revision: Revision,
    ) -> CheckpointKeys {
        let mut known: BTreeSet<Resource> = self.eras.lock().keys().cloned().collect();
        known.extend(resources.cloned());
        let keys = known.into_iter().map(|resource| {
            self.record_write(&resource, revision);
            let key = self.eras.lock().get(&resource).and_then(|era| era.key.clone());
            (resource, key)
        });
        keys.collect()
    }

    /// Records that a checkpoint is durable: records at or before `revision` are stored with these keys.
    pub(crate) fn finish_checkpoint(&self, keys: &CheckpointKeys, revision: Revision) {
        let mut eras = self.eras.lock();
        for (resource, key) in keys {
            if let Some(era) = eras.get_mut(resource)
                && era.key == *key
                && era.stale_until <= revision
            {
                era.stale_until = Revision::ZERO;
            }
        }
    }

    /// `true` if the record that was put at `revision` may be stored with another key than the current one.
    pub(crate) fn is_stale(&self, resource: &Resource, revision: Revision) -> bool {
        let current = self.sealer.write_key(resource);
        match self.eras.lock().get(resource) {
            Some(era) if era.key == current => revision <= era.stale_until,
            Some(_) => true,
            None => false,
        }
    }

    /// `true` if records may be stored with other keys than the current ones.
    pub(crate) fn has_stale(&self) -> bool {
        self.eras.lock().iter().any(|(resource, era)| {
            era.stale_until > Revision::ZERO || self.sealer.write_key(resource) != era.key
        })
    }
}

impl fmt::Debug for Sealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealing").finish_non_exhaustive()
    }
}

/// A write that was left sealed: what an export needs to copy it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedWrite {
    /// Tag of the write; see [`Context::tag`].
    pub tag: u8,
    /// Sealed value and envelope.
    pub sealed: SealedBytes,
}

#[cfg(test)]
mod tests;
