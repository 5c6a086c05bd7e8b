//! Encryption at rest: which resources are sealed, with which keys and ciphers.
//!
//! [`config`] reads an EncryptionConfiguration, with upstream's checks and texts. [`KeyRing`] holds its keys: it selects
//! the provider of a resource, seals bytes with the provider's first key, and opens them with any of its keys. Sealed
//! bytes are bound to a context, such as the path and revision of an object: bytes that are moved cannot be opened. The
//! keys of a KMS plugin are in [`kms`], which knows its messages and rules, and sends nothing itself.
//!
//! Random bytes, the time and the calls of a plugin are arguments. Keys are wiped when they are dropped, and appear in
//! no error and no `Debug` output.

mod cipher;
pub mod config;
mod key_ring;
pub mod kms;
mod secret;

pub use cipher::Random;
pub use key_ring::{KeyRing, OpenError, SealError, Sealed};
pub use secret::Secret;
