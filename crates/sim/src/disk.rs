//! Simulated disk with power cuts and other faults.
//!
//! At a power cut, each sector of an unsynced write survives or not, as the seed decides, and in any order. Unsynced
//! changes of names survive as a prefix, since file systems keep those in a journal. The disk can also be full, fail a
//! sync, run out of file descriptors, and cut the power before its n-th operation, so that a test can cut between any
//! two.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use fastrand::Rng;
use parking_lot::Mutex;
use setpoint_store::disk::{Disk, DiskFile, SECTOR_BYTES};

/// Linux error number of "Too many open files".
const EMFILE: i32 = 24;

/// Handle of a simulated disk. A clone is another handle of the same disk.
#[derive(Clone, Debug, Default)]
pub struct SimDisk(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// Names as programs see them.
    names: BTreeMap<String, FileId>,
    /// Names as of the last sync.
    durable_names: BTreeMap<String, FileId>,
    /// Changes of names since the last sync.
    pending_names: Vec<NameChange>,
    files: BTreeMap<FileId, FileState>,
    next_id: u64,
    faults: Faults,
    operations: u64,
    /// Files opened and created, and listings, so far.
    opens: u64,
    /// Files that are open.
    open_files: u64,
    syncs: u64,
    /// `true` after a power cut: every operation fails until [`SimDisk::power_cycle`].
    off: bool,
}

type FileId = u64;

#[derive(Clone, Debug)]
enum NameChange {
    Set(String, FileId),
    Rename(String, String, FileId),
    Remove(String),
}

#[derive(Clone, Debug, Default)]
struct FileState {
    /// Content as programs see it.
    content: Vec<u8>,
    /// Content as of the last sync.
    durable: Vec<u8>,
    /// Writes since the last sync, by sector.
    pending: Vec<(usize, Vec<u8>)>,
}

/// Faults of a disk.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Number of the operation before which the power is cut.
    pub power_cut_at: Option<u64>,
    /// Maximum number of bytes of all files.
    pub capacity_bytes: Option<u64>,
    /// Number of the first sync that fails.
    pub failing_sync: Option<u64>,
    /// Acknowledges syncs without doing them.
    pub ignores_syncs: bool,
    /// Number of the open, create or listing that fails with EMFILE. Later ones succeed.
    pub failing_open: Option<u64>,
    /// Maximum number of open files. A listing needs a descriptor while it runs.
    pub descriptors_max: Option<u64>,
}

impl SimDisk {
    /// Sets the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.0.lock().faults = faults;
    }

    /// Operations so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    /// Syncs so far.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// Files opened and created, and listings, so far.
    #[must_use]
    pub fn opens(&self) -> u64 {
        self.0.lock().opens
    }

    /// Files that are open.
    #[must_use]
    pub fn open_files(&self) -> u64 {
        self.0.lock().open_files
    }

    /// `true` after a power cut.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.0.lock().off
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.lock().bytes()
    }

    /// Cuts the power and restores it. `rng` decides what survives.
    pub fn power_cycle(&self, rng: &mut Rng) {
        let mut inner = self.0.lock();
        let mut changes = std::mem::take(&mut inner.pending_names);
        changes.truncate(rng.usize(..=changes.len()));
        for change in changes {
            match change {
                NameChange::Set(name, id) => drop(inner.durable_names.insert(name, id)),
                NameChange::Rename(from, to, id) => {
                    inner.durable_names.remove(&from);
                    inner.durable_names.insert(to, id);
                }
                NameChange::Remove(name) => drop(inner.durable_names.remove(&name)),
            }
        }
        inner.names = inner.durable_names.clone();
        let alive: Vec<FileId> = inner.names.values().copied().collect();
        inner.files.retain(|id, _| alive.contains(id));
        for file in inner.files.values_mut() {
            file.lose(rng);
        }
        inner.off = false;
        inner.faults = Faults::default();
    }

    /// Restores the power with all writes, as if only the process was killed.
    pub fn power_on(&self) {
        let mut inner = self.0.lock();
        (inner.off, inner.faults) = (false, Faults::default());
    }

    /// Flips a bit of a file, as a failing disk does. Returns `false` if the file is shorter.
    pub fn flip_bit(&self, name: &str, position: usize, bit: u8) -> bool {
        let mut inner = self.0.lock();
        let Some(id) = inner.names.get(name).copied() else { return false };
        let file = inner.files.get_mut(&id).expect("every name has a file");
        let Some(byte) = file.content.get_mut(position) else { return false };
        *byte ^= 1 << (bit % 8);
        file.durable[position] = *byte;
        true
    }

    /// Truncates a file to `length` bytes. Returns `false` if it is shorter.
    pub fn truncate(&self, name: &str, length: usize) -> bool {
        let mut inner = self.0.lock();
        let Some(id) = inner.names.get(name).copied() else { return false };
        let file = inner.files.get_mut(&id).expect("every name has a file");
        if file.content.len() < length {
            return false;
        }
        file.sync();
        file.content.truncate(length);
        file.durable.truncate(length);
        true
    }

    /// Replaces the content of a file. Returns `false` if there is no such file.
    pub fn replace(&self, name: &str, content: Vec<u8>) -> bool {
        let mut inner = self.0.lock();
        let Some(id) = inner.names.get(name).copied() else { return false };
        let file = inner.files.get_mut(&id).expect("every name has a file");
        *file = FileState { durable: content.clone(), content, pending: Vec::new() };
        true
    }

    /// Content of a file.
    #[must_use]
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let inner = self.0.lock();
        inner.names.get(name).map(|id| inner.files[id].content.clone())
    }
}

impl Inner {
    /// Counts an operation. Fails if the power is off.
    fn operate(&mut self) -> io::Result<()> {
        if self.faults.power_cut_at.is_some_and(|number| self.operations >= number) {
            self.off = true;
        }
        if self.off {
            return Err(io::Error::other("the power is off"));
        }
        self.operations += 1;
        Ok(())
    }

    /// Counts an operation that needs a file descriptor.
    fn operate_on_descriptor(&mut self) -> io::Result<()> {
        self.operate()?;
        let number = self.opens;
        self.opens += 1;
        let is_exhausted = self.faults.descriptors_max.is_some_and(|most| self.open_files >= most);
        if is_exhausted || self.faults.failing_open == Some(number) {
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.names.values().map(|id| self.files[id].content.len() as u64).sum()
    }

    fn find(&self, name: &str) -> io::Result<FileId> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl FileState {
    fn write(&mut self, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        if self.content.len() < end {
            self.content.resize(end, 0);
        }
        self.content[offset..end].copy_from_slice(data);
        let mut from = offset;
        while from < end {
            let to = (from + 1).next_multiple_of(SECTOR_BYTES).min(end);
            self.pending.push((from, self.content[from..to].to_vec()));
            from = to;
        }
    }

    fn sync(&mut self) {
        self.durable.resize(self.content.len(), 0);
        for (offset, data) in self.pending.drain(..) {
            self.durable[offset..offset + data.len()].copy_from_slice(&data);
        }
    }

    /// Keeps a random part of the unsynced writes, in random order.
    fn lose(&mut self, rng: &mut Rng) {
        let mut pending = std::mem::take(&mut self.pending);
        let survivors = [0, 10, 50, 90, 100][rng.usize(..5)];
        pending.retain(|_| rng.u8(..100) < survivors);
        if rng.bool() {
            rng.shuffle(&mut pending);
        }
        for (offset, data) in pending {
            let end = offset + data.len();
            if self.durable.len() < end {
                self.durable.resize(end, 0);
            }
            self.durable[offset..end].copy_from_slice(&data);
        }
        self.content = self.durable.clone();
    }
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut inner = self.0.lock();
        inner.operate_on_descriptor()?;
        Ok(inner.names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.0.lock();
        inner.operate_on_descriptor()?;
        let id = inner.find(name)?;
        inner.open_files += 1;
        Ok(Box::new(SimFile { disk: self.clone(), id }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.0.lock();
        inner.operate_on_descriptor()?;
        inner.open_files += 1;
        let id = inner.next_id;
        inner.next_id += 1;
        inner.files.insert(id, FileState::default());
        inner.names.insert(name.to_owned(), id);
        inner.pending_names.push(NameChange::Set(name.to_owned(), id));
        Ok(Box::new(SimFile { disk: self.clone(), id }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.0.lock();
        inner.operate()?;
        let id = inner.find(from)?;
        inner.names.remove(from);
        inner.names.insert(to.to_owned(), id);
        // A rename is one journal entry: a power cut never leaves both names or none.
        inner.pending_names.push(NameChange::Rename(from.to_owned(), to.to_owned(), id));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inner = self.0.lock();
        inner.operate()?;
        inner.find(name)?;
        inner.names.remove(name);
        inner.pending_names.push(NameChange::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut inner = self.0.lock();
        inner.operate()?;
        inner.syncs += 1;
        inner.pending_names.clear();
        inner.durable_names = inner.names.clone();
        Ok(())
    }
}

struct SimFile {
    disk: SimDisk,
    id: FileId,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.disk.0.lock().open_files -= 1;
    }
}

impl SimFile {
    fn with<T>(&self, act: impl FnOnce(&mut FileState) -> io::Result<T>) -> io::Result<T> {
        let mut inner = self.disk.0.lock();
        inner.operate()?;
        let file = inner.files.get_mut(&self.id).ok_or(io::ErrorKind::NotFound)?;
        act(file)
    }
}

impl DiskFile for SimFile {
    fn length(&self) -> io::Result<u64> {
        self.with(|file| Ok(file.content.len() as u64))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.with(|file| {
            let start = offset as usize;
            let part = file.content.get(start..start + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            buffer.copy_from_slice(part);
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut inner = self.disk.0.lock();
        inner.operate()?;
        let (total, capacity) = (inner.bytes(), inner.faults.capacity_bytes);
        let file = inner.files.get_mut(&self.id).ok_or(io::ErrorKind::NotFound)?;
        let growth = (offset + data.len() as u64).saturating_sub(file.content.len() as u64);
        if capacity.is_some_and(|capacity| growth > 0 && total + growth > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.write(offset as usize, data);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut inner = self.disk.0.lock();
        inner.operate()?;
        inner.syncs += 1;
        if inner.faults.failing_sync.is_some_and(|number| inner.syncs >= number) {
            return Err(io::Error::other("the sync failed"));
        }
        if inner.faults.ignores_syncs {
            return Ok(());
        }
        inner.files.get_mut(&self.id).ok_or(io::ErrorKind::NotFound)?.sync();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synced_writes_survive_a_power_cut_and_others_may_not() {
        let mut outcomes = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let disk = SimDisk::default();
            let file = disk.create("a").unwrap();
            file.write_at(0, &[1; 1024]).unwrap();
            file.sync().unwrap();
            disk.sync_names().unwrap();
            file.write_at(0, &[2; 1024]).unwrap();
            disk.create("b").unwrap();
            disk.power_cycle(&mut Rng::with_seed(seed));
            let content = disk.content("a").unwrap();
            assert_eq!(content.len(), 1024);
            outcomes.insert((content[0], content[512], disk.content("b").is_some()));
        }
        assert_eq!(outcomes.len(), 8, "every combination of old and new: {outcomes:?}");
    }

    #[test]
    fn power_cut_lasts_until_the_power_cycle() {
        let disk = SimDisk::default();
        disk.set_faults(Faults { power_cut_at: Some(1), ..Faults::default() });
        assert!(disk.create("a").is_ok());
        assert!(disk.create("b").is_err());
        assert!(disk.list().is_err());
        disk.power_cycle(&mut Rng::with_seed(1));
        assert!(disk.list().is_ok());
    }

    #[test]
    fn full_disk_rejects_growth_and_allows_overwriting() {
        let disk = SimDisk::default();
        let file = disk.create("a").unwrap();
        file.write_at(0, &[0; 100]).unwrap();
        disk.set_faults(Faults { capacity_bytes: Some(100), ..Faults::default() });
        assert!(setpoint_store::disk::is_full(&file.write_at(50, &[0; 51]).unwrap_err()));
        assert!(file.write_at(50, &[0; 50]).is_ok());
    }
}
