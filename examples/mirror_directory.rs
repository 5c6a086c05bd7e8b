//! Reconciliation outside of Kubernetes: keeps a directory equal to a ConfigMap. Edit, delete or add a file, or change
//! the ConfigMap, and the directory is corrected within a moment.
//!
//! The desired state comes from the API, the observed state from the disk. [`acts`] is a pure function of the two; the
//! rest is a shell that observes, plans and acts:
//!
//! ```text
//! cargo run --release -- up --kubeconfig /tmp/kc &
//! kubectl --kubeconfig /tmp/kc create configmap site --from-literal=index.html=hello
//! cargo run --release --example mirror_directory -- /tmp/kc default/site /tmp/site &
//! cat /tmp/site/index.html; echo mine > /tmp/site/index.html; sleep 1; cat /tmp/site/index.html
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use setpoint_api::{Value, json};
use setpoint_runtime::client::{Client, ClientError, next_chunk};

/// Interval at which the directory is read.
const LOOK: Duration = Duration::from_millis(100);
/// Pause before the next request to a server that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// Temporary file of a write. No key of a ConfigMap can have this name.
const NEW: &str = "~new";

/// Contents of files by name.
type Files = BTreeMap<String, Vec<u8>>;

/// Observed files; `None` for entries that are not regular files, such as links.
type Seen = BTreeMap<String, Option<Vec<u8>>>;

/// Correction of one file.
#[derive(Debug, PartialEq, Eq)]
enum Action<'a> {
    Write(&'a str, &'a [u8]),
    Remove(&'a str),
}

/// Returns the actions that make the directory equal to the ConfigMap; none if it is.
fn acts<'a>(wanted: &'a Files, seen: &'a Seen) -> Vec<Action<'a>> {
    let extra = seen.keys().filter(|name| !wanted.contains_key(*name)).map(|name| Action::Remove(name));
    let differs =
        |(name, bytes): &(&String, &Vec<u8>)| seen.get(*name).and_then(Option::as_ref) != Some(*bytes);
    let wrong = wanted.iter().filter(differs).map(|(name, bytes)| Action::Write(name, bytes));
    extra.chain(wrong).collect()
}

/// Returns the desired files of a ConfigMap.
fn wanted(map: &Value) -> Files {
    let entries = |field| map.get(field).and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
    let texts =
        entries("data").map(|(name, text)| (name, text.as_str().unwrap_or_default().as_bytes().to_vec()));
    let decode = |text: &Value| STANDARD.decode(text.as_str().unwrap_or_default()).unwrap_or_default();
    let binaries = entries("binaryData").map(|(name, text)| (name, decode(text)));
    let files = texts.chain(binaries).map(|(name, bytes)| (name.to_string(), bytes));
    // Servers reject such names, but a path on disk must not depend on that.
    files.filter(|(name, _)| !name.contains('/') && !name.starts_with("..") && name != ".").collect()
}

/// Reads the directory. Subdirectories are ignored.
fn look(directory: &Path) -> io::Result<Seen> {
    let mut seen = Seen::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (kind, Ok(name)) = (entry.file_type()?, entry.file_name().into_string()) else { continue };
        if kind.is_file() {
            match fs::read(entry.path()) {
                Ok(bytes) => drop(seen.insert(name, Some(bytes))),
                // Removed concurrently: the next read shows the result.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        } else if !kind.is_dir() {
            seen.insert(name, None);
        }
    }
    Ok(seen)
}

fn perform(act: &Action<'_>, directory: &Path) -> io::Result<()> {
    match act {
        // The rename is atomic: readers see the old file or the new one, never a part.
        Action::Write(name, bytes) => {
            let new = directory.join(NEW);
            let mut file = File::create(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(new, directory.join(name))
        }
        Action::Remove(name) => match fs::remove_file(directory.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        },
    }
}

/// Corrects the directory. A failed action does not affect others, and is retried after the next read.
fn reconcile(wanted: &Files, directory: &Path) {
    let seen = fs::create_dir_all(directory).and_then(|()| look(directory));
    let seen = match seen {
        Ok(seen) => seen,
        Err(error) => return eprintln!("cannot read {}: {error}", directory.display()),
    };
    for act in acts(wanted, &seen) {
        match (perform(&act, directory), act) {
            (Ok(()), Action::Write(name, _)) => println!("wrote {name}"),
            (Ok(()), Action::Remove(name)) => println!("removed {name}"),
            (Err(error), Action::Write(name, _) | Action::Remove(name)) => eprintln!("{name}: {error}"),
        }
    }
}

/// Keeps the directory equal to the ConfigMap forever. While the ConfigMap or the server is missing, the last desired
/// state applies.
#[expect(clippy::disallowed_methods, reason = "a program of its own has a clock of its own")]
pub async fn keep(client: &Client, namespace: &str, name: &str, directory: &Path) {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps?fieldSelector=metadata.name%3D{name}");
    let mut last = None;
    loop {
        if let Err(error) = follow(client, &path, directory, &mut last).await {
            eprintln!("{error}");
        }
        last.iter().for_each(|wanted| reconcile(wanted, directory));
        tokio::time::sleep(PAUSE).await;
    }
}

/// Lists, then watches until the watch ends. Any event of the watch causes a new list; between events the directory is
/// read at intervals.
async fn follow(
    client: &Client,
    path: &str,
    directory: &Path,
    last: &mut Option<Files>,
) -> Result<(), ClientError> {
    loop {
        let get = || "GET".parse().expect("GET is a method");
        let (status, body) = client.request(get(), path, None, Default::default()).await?;
        let list = json::parse(&body).unwrap_or_default();
        if !status.is_success() {
            eprintln!("{}", list.str_at(&["message"]));
            return Ok(());
        }
        let found = list.get("items").and_then(Value::as_list).and_then(|items| items.first());
        *last = found.map(wanted).or_else(|| last.take());
        let revision = list.str_at(&["metadata", "resourceVersion"]);
        let watch = format!("{path}&watch=1&resourceVersion={revision}");
        let mut changes = client.send(get(), &watch, None, Default::default()).await?.into_body();
        loop {
            last.iter().for_each(|wanted| reconcile(wanted, directory));
            match tokio::time::timeout(LOOK, next_chunk(&mut changes)).await {
                // No event within the interval.
                Err(_) => {}
                Ok(Ok(Some(_))) => break,
                Ok(ended) => return ended.map(drop),
            }
        }
    }
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kubeconfig, map, directory] = &arguments[..] else {
        anyhow::bail!("usage: mirror_directory KUBECONFIG NAMESPACE/CONFIGMAP DIRECTORY");
    };
    let (namespace, name) = map.split_once('/').unwrap_or(("default", map));
    let client = Client::from_kubeconfig(&fs::read(kubeconfig)?, "mirror-directory")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(keep(&client, namespace, name, Path::new(directory)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_differs_is_put_right_in_one_go_and_then_it_is_quiet() {
        let text = |text: &str| text.as_bytes().to_vec();
        let wanted = Files::from([("a".into(), text("1")), ("b".into(), text("2")), ("c".into(), text("3"))]);
        let seen = Seen::from([
            ("a".into(), Some(text("1"))),
            ("b".into(), Some(text("edited"))),
            ("d".into(), Some(text("extra"))),
            ("c".into(), None),
            (NEW.into(), Some(text("left by a crash"))),
        ]);
        let all =
            [Action::Remove("d"), Action::Remove(NEW), Action::Write("b", b"2"), Action::Write("c", b"3")];
        assert_eq!(acts(&wanted, &seen), all);
        let after = wanted.iter().map(|(name, bytes)| (name.clone(), Some(bytes.clone()))).collect();
        assert_eq!(acts(&wanted, &after), []);
    }
}
