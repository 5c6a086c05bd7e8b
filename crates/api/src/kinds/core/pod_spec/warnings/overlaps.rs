//! Conflicting file paths in projected volumes.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::kinds::read::{list, optional_text, present, text};
use crate::quote::Quoted;
use crate::value::Value;

/// A path in a volume, with its source.
struct VolumeFile<'a> {
    path: &'a str,
    /// Shared by all items of a source: their number times the length of its name would not be bounded.
    source: Rc<str>,
}

impl VolumeFile<'_> {
    fn describe(&self) -> String {
        let path = Quoted(self.path);
        if self.source.is_empty() { path.to_string() } else { format!("{path} ({})", self.source) }
    }
}

/// Warnings for conflicting paths of volumes.
pub(super) fn overlapping_paths(volumes: &[Value], warnings: &mut Vec<String>) {
    for volume in volumes {
        let name = Quoted(text(volume, "name")).to_string();
        for (field, kind, name_field) in [
            ("configMap", "ConfigMap", "name"),
            ("secret", "Secret", "secretName"),
            ("downwardAPI", "DownwardAPI", ""),
        ] {
            let Some(source) = present(volume, field) else { continue };
            let shown = if name_field.is_empty() {
                kind.to_owned()
            } else {
                format!("{kind} {}", Quoted(text(source, name_field)))
            };
            warn_about_overlaps(&items(source, ""), &name, &shown, warnings);
        }
        if let Some(projected) = present(volume, "projected") {
            let mut files = Vec::new();
            for source in list(projected, "sources") {
                if source.is_empty() {
                    warnings.push(format!("volume {name} (Projected) has no sources provided"));
                }
                files.extend(projection(source));
            }
            warn_about_overlaps(&files, &name, "Projected", warnings);
        }
    }
}

/// Maximum number of warnings about pairs of paths; see [`ports`](super::ports).
const PAIRS_MAX: usize = 64;

/// Warns about pairs of paths that are equal or nested.
fn warn_about_overlaps(files: &[VolumeFile<'_>], volume: &str, shown: &str, warnings: &mut Vec<String>) {
    let mut tree = PathTree::default();
    let mut pairs = 0;
    for (i, file) in files.iter().enumerate().filter(|(_, file)| !file.path.is_empty()) {
        for other in tree.insert(file.path, i).into_iter().take(PAIRS_MAX - pairs) {
            let (file, other) = (file.describe(), files[other].describe());
            warnings.push(format!("volume {volume} ({shown}): overlapping paths: {file} with {other}"));
            pairs += 1;
        }
        if pairs == PAIRS_MAX {
            return;
        }
    }
}

/// Trie of path segments. One map holds the edges of all nodes: paths may have a million segments.
#[derive(Default)]
struct PathTree<'a> {
    /// Child of a node, by segment.
    edges: BTreeMap<(usize, &'a str), usize>,
    /// Paths that end at a node.
    ends: BTreeMap<usize, Vec<usize>>,
    /// Paths that lead through a node or end at it, the first [`PAIRS_MAX`].
    through: BTreeMap<usize, Vec<usize>>,
}

impl<'a> PathTree<'a> {
    /// Adds a path with its index, and returns the indexes of earlier paths that are equal, above or below.
    fn insert(&mut self, path: &'a str, index: usize) -> Vec<usize> {
        let mut found = Vec::new();
        let mut node = 0;
        for part in path.split('/') {
            found.extend(self.ends.get(&node).into_iter().flatten().take(PAIRS_MAX));
            let next = self.edges.len() + 1;
            node = *self.edges.entry((node, part)).or_insert(next);
            let through = self.through.entry(node).or_default();
            if through.len() < PAIRS_MAX {
                through.push(index);
            }
        }
        // All that lead through the last node are below the path or equal to it.
        found.extend(self.through.get(&node).into_iter().flatten().filter(|other| **other != index));
        self.ends.entry(node).or_default().push(index);
        found.sort_unstable();
        found
    }
}

fn items<'a>(files: &'a Value, source: &str) -> Vec<VolumeFile<'a>> {
    let source: Rc<str> = source.into();
    let file =
        |item| VolumeFile { path: text(item, "path").trim_end_matches('/'), source: Rc::clone(&source) };
    list(files, "items").iter().map(file).collect()
}

fn file<'a>(path: &'a str, source: &str) -> VolumeFile<'a> {
    VolumeFile { path: path.trim_end_matches('/'), source: source.into() }
}

fn projection(source: &Value) -> Vec<VolumeFile<'_>> {
    let has_items = |field: &str| present(source, field).filter(|files| !list(files, "items").is_empty());
    for (field, what) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        if let Some(files) = has_items(field) {
            return items(files, &format!("{what} {}", Quoted(text(files, "name"))));
        }
    }
    if let Some(files) = has_items("downwardAPI") {
        return items(files, "DownwardAPI");
    }
    if let Some(token) = present(source, "serviceAccountToken") {
        return vec![file(text(token, "path"), "ServiceAccountToken")];
    }
    if let Some(bundle) = present(source, "clusterTrustBundle") {
        let name = optional_text(bundle, "name").unwrap_or_else(|| text(bundle, "signerName"));
        return vec![file(text(bundle, "path"), &format!("ClusterTrustBundle {}", Quoted(name)))];
    }
    let Some(certificate) = present(source, "podCertificate") else { return Vec::new() };
    [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ]
    .into_iter()
    .filter(|(field, _)| !text(certificate, field).is_empty())
    .map(|(field, what)| file(text(certificate, field), what))
    .collect()
}
