//! Safe mode: recovery when an object ends the process at every start.
//!
//! A panic in a plan is contained by the loop. An abort is not: a failed allocation, a stack overflow, or
//! the kernel's OOM killer. An object that causes one does so again in the first pass of the loop after each
//! start, that is, while each listed key is planned once. Therefore, during the first pass the data
//! directory holds a small file with the key that is being planned. The file is removed at the end of the
//! first pass, and on a clean stop. If it exists at a start, the previous process crashed in its first pass.
//! After [`CRASHES_MAX`] consecutive crashes at the same key, the server starts in safe mode: it serves the
//! API and runs no controller, scheduler or node, so that the object can be deleted.
//!
//! Servers that are killed from outside do not enter safe mode: three consecutive kills would all have to
//! hit a first pass, and the plan of the same key. The start after a safe mode is a normal one again;
//! another crash at the same key enters safe mode again.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use setpoint_api::Key;
use setpoint_reconcile::Engine;
use setpoint_reconcile::engine::FirstPassObserver;
use setpoint_views::world_config;

use super::print_line;
use crate::commands::engine::{ControllerSelection, SCHEDULER};

/// Consecutive crashes at one key after which a server starts in safe mode.
pub const CRASHES_MAX: u32 = 3;
/// Name of the file in the data directory.
const FILE_NAME: &str = "first-pass";
/// Size of the file in bytes. It is overwritten in place, with one system call per key; a key has less than
/// half of this.
const FILE_BYTES: usize = 2048;
/// Content of the file before the first key is planned.
const LISTING: &str = "listing objects";
/// Content of the file in safe mode.
const SAFE_MODE: &str = "safe mode";

/// Consecutive crashes at one position of the first pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crashes {
    count: u32,
    position: String,
}

impl Crashes {
    /// Parses the file of the previous process: the crashes before it, and its own last key. A torn or
    /// foreign file counts as no crash.
    fn parse(text: &str) -> Crashes {
        let mut lines = text.lines();
        let before = lines.next().and_then(|line| line.split_once(' ')).and_then(|(count, position)| {
            Some(Crashes { count: count.parse().ok()?, position: position.to_owned() })
        });
        let (Some(before), Some(position)) = (before, lines.next().map(str::trim)) else {
            return Crashes::default();
        };
        match position {
            "" => Crashes::default(),
            // The start after safe mode gets one more attempt.
            SAFE_MODE => Crashes { count: CRASHES_MAX - 1, ..before },
            position if position == before.position => {
                Crashes { count: before.count.saturating_add(1), ..before }
            }
            position => Crashes { count: 1, position: position.to_owned() },
        }
    }

    /// Returns the controller and the key in whose plan the previous processes crashed, if that happened
    /// [`CRASHES_MAX`] times.
    pub fn crashing_key(&self) -> Option<(&str, &str)> {
        if self.count < CRASHES_MAX {
            return None;
        }
        Some(self.position.split_once(' ').filter(|_| self.position != LISTING).unwrap_or(("", "")))
    }
}

/// File that records the progress of the first pass.
pub struct ProgressFile {
    path: PathBuf,
    file: File,
    crashes: Crashes,
}

impl ProgressFile {
    /// Records the start of a first pass over a data directory.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn begin(data_dir: &Path) -> std::io::Result<ProgressFile> {
        let path = data_dir.join(FILE_NAME);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        let mut bytes = vec![0; FILE_BYTES];
        let read = file.read_at(&mut bytes, 0)?;
        let crashes = Crashes::parse(&String::from_utf8_lossy(&bytes[..read]));
        let progress = ProgressFile { path, file, crashes };
        progress.record(LISTING)?;
        Ok(progress)
    }

    /// Crashes of the previous processes.
    pub fn crashes(&self) -> &Crashes {
        &self.crashes
    }

    /// Records that this process runs in safe mode.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn record_safe_mode(&self) -> std::io::Result<()> {
        self.record(SAFE_MODE)
    }

    fn record(&self, position: &str) -> std::io::Result<()> {
        let Crashes { count, position: before } = &self.crashes;
        let mut text = format!("{count} {before}\n{position}\n");
        text.truncate(text.floor_char_boundary(FILE_BYTES - 1));
        self.file.write_all_at(format!("{text:<FILE_BYTES$}").as_bytes(), 0)
    }
}

impl FirstPassObserver for ProgressFile {
    fn begin_plan(&mut self, controller: &str, key: &Key) {
        // A full disk must not stop the loop, and only this hint is lost.
        let _ = self.record(&format!("{controller} {key}"));
    }

    fn end(&mut self) {
        // A file that remains counts as one crash at most.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns the loop with its first pass recorded in the data directory; in safe mode, a loop without
/// controllers.
pub fn record_first_pass(engine: Engine, data_dir: Option<&Path>, selection: &ControllerSelection) -> Engine {
    let Some(data_dir) = data_dir else { return engine };
    let progress = match ProgressFile::begin(data_dir) {
        Ok(progress) => progress,
        Err(error) => {
            tracing::warn!(%error, "cannot record the first pass of the loop");
            return engine;
        }
    };
    let Some(line) =
        progress.crashes().crashing_key().and_then(|(controller, key)| safe_mode(controller, key, selection))
    else {
        return engine.with_first_pass_observer(Box::new(progress));
    };
    if let Err(error) = progress.record_safe_mode() {
        tracing::warn!(%error, "cannot record safe mode");
    }
    print_line(format_args!("{line}"));
    tracing::error!(reason = line, "started in safe mode");
    Engine::new(Vec::new(), world_config([])).with_watched_resources_only().with_notice(line)
}

/// Returns the message for operators in safe mode; `None` if the controller that crashed is not selected.
fn safe_mode(controller: &str, key: &str, selection: &ControllerSelection) -> Option<String> {
    let state = "no controller, scheduler or node runs";
    if controller.is_empty() {
        return Some(format!(
            "safe mode: the last {CRASHES_MAX} starts crashed while the loop listed objects; {state}: delete objects that it \
             cannot hold, and restart"
        ));
    }
    let advice = match selection.is_selected(controller) {
        Some(false) => return None,
        Some(true) => format!(", or restart with --controllers='*,-{controller}'"),
        None => String::new(),
    };
    let (planned, remedy) = describe_suspects(controller, key);
    Some(format!(
        "safe mode: the last {CRASHES_MAX} starts crashed while {controller} planned {planned}; {state}: {remedy} and \
         restart{advice}"
    ))
}

/// Returns a description of the objects that were planned under a key, and the advice for operators. The key
/// of a planner of many objects is not one of them: for the scheduler it is its Lease, for the pods of a
/// node it is the node.
fn describe_suspects(controller: &str, key: &str) -> (String, String) {
    if controller == SCHEDULER {
        let remedy = "delete the pod without a node, or the persistent volume, that was created last";
        return ("pods without a node".to_owned(), remedy.to_owned());
    }
    match key.strip_prefix("nodes/") {
        Some(node) if controller.starts_with("node-") => {
            let remedy = format!("delete the pod of node {node} that was created last");
            (format!("pods of node {node}"), remedy)
        }
        _ => (key.to_owned(), "delete or change that object".to_owned()),
    }
}

/// Removes the file on a clean stop. In safe mode the file stays.
pub fn remove_progress(data_dir: &Path) {
    let path = data_dir.join(FILE_NAME);
    let is_safe_mode = |text: String| text.lines().nth(1).is_some_and(|line| line.trim() == SAFE_MODE);
    if !std::fs::read_to_string(&path).is_ok_and(is_safe_mode) {
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use setpoint_reconcile::planner::key_of;

    use super::*;

    /// Simulates a process that crashes while it plans a key. Returns the crashes that it found.
    fn crash_at(dir: &Path, name: &str) -> Crashes {
        let mut progress = ProgressFile::begin(dir).unwrap();
        progress.begin_plan("copier", &key_of("things", "a", "first").unwrap());
        progress.begin_plan("copier", &key_of("things", "a", name).unwrap());
        progress.crashes().clone()
    }

    #[test]
    fn three_consecutive_crashes_at_one_key_enter_safe_mode() {
        let dir = tempfile::tempdir().unwrap();
        for crash in 0..CRASHES_MAX {
            assert_eq!(crash_at(dir.path(), "x").crashing_key(), None, "after {crash} crashes");
        }
        let progress = ProgressFile::begin(dir.path()).unwrap();
        assert_eq!(progress.crashes().crashing_key(), Some(("copier", "things/a/x")));
        progress.record_safe_mode().unwrap();
        assert_eq!(
            crash_at(dir.path(), "x").crashing_key(),
            None,
            "the start after a safe mode is a normal one"
        );
        let again = ProgressFile::begin(dir.path()).unwrap();
        assert!(again.crashes().crashing_key().is_some(), "one more crash enters safe mode again");
    }

    #[test]
    fn advice_never_names_a_key_of_several_objects() {
        let selection = crate::commands::engine::parse_controllers("*").unwrap();
        let line = safe_mode(SCHEDULER, "leases.coordination.k8s.io/kube-system/kube-scheduler", &selection);
        let line = line.unwrap();
        assert!(!line.contains("leases"), "{line}");
        assert!(line.contains("pods without a node") && line.contains("'*,-scheduler'"), "{line}");
        let line = safe_mode("node-admission", "nodes/node-0", &selection).unwrap();
        assert!(line.contains("delete the pod of node node-0"), "{line}");
        let line = safe_mode("replicaset-controller", "replicasets.apps/default/web", &selection).unwrap();
        assert!(line.contains("planned replicasets.apps/default/web; "), "{line}");
    }

    #[test]
    fn crashes_at_several_keys_or_after_a_first_pass_do_not_enter_safe_mode() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..20 {
            assert_eq!(crash_at(dir.path(), ["x", "y"][round % 2]).crashing_key(), None);
        }
        for _ in 0..2 {
            crash_at(dir.path(), "z");
            ProgressFile::begin(dir.path()).unwrap().end();
        }
        assert_eq!(crash_at(dir.path(), "z"), Crashes::default(), "a completed pass resets the count");
    }

    #[test]
    fn files_with_any_content_are_parsed() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "x", "3", "3 a b\n", "99999999999 a\na\n", "\u{fffd}\0\0", "3 listing objects\n\n"] {
            std::fs::write(dir.path().join(FILE_NAME), text).unwrap();
            assert_eq!(ProgressFile::begin(dir.path()).unwrap().crashes().crashing_key(), None, "{text:?}");
        }
        std::fs::write(dir.path().join(FILE_NAME), "2 listing objects\nlisting objects\n").unwrap();
        assert_eq!(ProgressFile::begin(dir.path()).unwrap().crashes().crashing_key(), Some(("", "")));
    }
}
