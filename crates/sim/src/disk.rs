//! A disk that forgets.
//!
//! It keeps what a power cut may leave: every write that was not synced survives or not sector by sector, as
//! the seed picks, in any order; names that were not synced survive as a prefix of what was done to them,
//! for file systems keep those in a journal. Beside that it can be full, fail a sync, and run on a fuse
//! that cuts the power before its n-th operation, so that a test can cut between any two.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use fastrand::Rng;
use parking_lot::Mutex;
use setpoint_store::disk::{Disk, DiskFile, SECTOR_BYTES};

/// "Too many open files", as Linux numbers it.
const EMFILE: i32 = 24;

/// A simulated disk. Cloning it gives another handle on the same one.
#[derive(Clone, Debug, Default)]
pub struct SimDisk(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// The names as programs see them.
    names: BTreeMap<String, FileId>,
    /// The names as they were at the last sync.
    durable_names: BTreeMap<String, FileId>,
    /// What was done to names since.
    pending_names: Vec<NameChange>,
    files: BTreeMap<FileId, FileState>,
    next_id: u64,
    faults: Faults,
    operations: u64,
    /// The number of files opened and created, and of listings, so far.
    opens: u64,
    /// The number of files that are open.
    open_files: u64,
    syncs: u64,
    /// A cut happened: nothing works until [`SimDisk::power_cycle`].
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
    /// The content as programs see it.
    content: Vec<u8>,
    /// The content as it was at the last sync.
    durable: Vec<u8>,
    /// What was written since, by sector.
    pending: Vec<(usize, Vec<u8>)>,
}

/// What goes wrong.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The power is cut before the operation with this number.
    pub fuse: Option<u64>,
    /// The most bytes that all files may have.
    pub capacity: Option<u64>,
    /// The sync with this number fails.
    pub failing_sync: Option<u64>,
    /// Syncs are said to be done, and are not.
    pub lies: bool,
    /// The open, create or listing with this number fails with EMFILE, and all later ones work again.
    pub failing_open: Option<u64>,
    /// The most files that may be open; a listing needs a descriptor of its own while it lasts.
    pub descriptors: Option<u64>,
}

impl SimDisk {
    /// Says what goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.0.lock().faults = faults;
    }

    /// How many operations there were.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    /// How many syncs there were.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// The number of files opened and created, and of listings, so far.
    #[must_use]
    pub fn opens(&self) -> u64 {
        self.0.lock().opens
    }

    /// The number of files that are open.
    #[must_use]
    pub fn open_files(&self) -> u64 {
        self.0.lock().open_files
    }

    /// Whether a cut happened.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.0.lock().off
    }

    /// How many bytes all files have.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.lock().bytes()
    }

    /// Cuts the power, and turns it on again over what `rng` left.
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

    /// Turns the power on again over all that was written, as if only the process had been killed.
    pub fn power_on(&self) {
        let mut inner = self.0.lock();
        (inner.off, inner.faults) = (false, Faults::default());
    }

    /// Flips a bit of a file, as a failing disk would. False if the file is not that long.
    pub fn flip(&self, name: &str, position: usize, bit: u8) -> bool {
        let mut inner = self.0.lock();
        let Some(id) = inner.names.get(name).copied() else { return false };
        let file = inner.files.get_mut(&id).expect("every name has a file");
        let Some(byte) = file.content.get_mut(position) else { return false };
        *byte ^= 1 << (bit % 8);
        file.durable[position] = *byte;
        true
    }

    /// Cuts a file to `length` bytes, as `truncate` does. False if it is not that long.
    pub fn cut(&self, name: &str, length: usize) -> bool {
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

    /// Replaces a file's content, as with an editor. Returns `false` if there is no such file.
    pub fn replace(&self, name: &str, content: Vec<u8>) -> bool {
        let mut inner = self.0.lock();
        let Some(id) = inner.names.get(name).copied() else { return false };
        let file = inner.files.get_mut(&id).expect("every name has a file");
        *file = FileState { durable: content.clone(), content, pending: Vec::new() };
        true
    }

    /// The content of a file.
    #[must_use]
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let inner = self.0.lock();
        inner.names.get(name).map(|id| inner.files[id].content.clone())
    }
}

impl Inner {
    /// Counts an operation, and fails it if the power is off.
    fn operate(&mut self) -> io::Result<()> {
        if self.faults.fuse.is_some_and(|fuse| self.operations >= fuse) {
            self.off = true;
        }
        if self.off {
            return Err(io::Error::other("the power is off"));
        }
        self.operations += 1;
        Ok(())
    }

    /// Counts an operation that takes a descriptor.
    fn operate_on_descriptor(&mut self) -> io::Result<()> {
        self.operate()?;
        let number = self.opens;
        self.opens += 1;
        let is_exhausted = self.faults.descriptors.is_some_and(|most| self.open_files >= most);
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

    /// Keeps some of what was not synced, in some order.
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
        // A rename is one entry of the journal: a cut never leaves both names, or none.
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
        let (total, capacity) = (inner.bytes(), inner.faults.capacity);
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
        if inner.faults.lies {
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
    fn what_was_synced_survives_and_the_rest_may_not() {
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
        assert_eq!(outcomes.len(), 8, "every mixture of old and new was seen: {outcomes:?}");
    }

    #[test]
    fn the_fuse_cuts_and_power_comes_back() {
        let disk = SimDisk::default();
        disk.set_faults(Faults { fuse: Some(1), ..Faults::default() });
        assert!(disk.create("a").is_ok());
        assert!(disk.create("b").is_err());
        assert!(disk.list().is_err());
        disk.power_cycle(&mut Rng::with_seed(1));
        assert!(disk.list().is_ok());
    }

    #[test]
    fn a_full_disk_takes_no_more_bytes_but_lets_old_ones_be_overwritten() {
        let disk = SimDisk::default();
        let file = disk.create("a").unwrap();
        file.write_at(0, &[0; 100]).unwrap();
        disk.set_faults(Faults { capacity: Some(100), ..Faults::default() });
        assert!(setpoint_store::disk::is_full(&file.write_at(50, &[0; 51]).unwrap_err()));
        assert!(file.write_at(50, &[0; 50]).is_ok());
    }
}
