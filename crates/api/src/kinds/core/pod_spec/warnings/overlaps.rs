//! Files of one volume that stand in each other's way.

use crate::kinds::read::{list, part, text, text_part};
use crate::quote::Quoted;
use crate::value::Value;

/// A path in a volume, and what puts a file there.
#[derive(PartialEq)]
struct Place<'a> {
    path: &'a str,
    source: String,
}

impl Place<'_> {
    fn shown(&self) -> String {
        let path = Quoted(self.path);
        if self.source.is_empty() { path.to_string() } else { format!("{path} ({})", self.source) }
    }

    /// Whether one of two places is the other or lies below it.
    fn clashes(&self, other: &Place<'_>) -> bool {
        let is_below = |low: &str, high: &str| {
            low.strip_prefix(high).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !self.path.is_empty()
            && !other.path.is_empty()
            && (is_below(self.path, other.path) || is_below(other.path, self.path))
    }
}

/// Warnings about files of one volume in each other's way.
pub(super) fn overlapping_paths(volumes: &[Value], warnings: &mut Vec<String>) {
    for volume in volumes {
        let name = Quoted(text(volume, "name")).to_string();
        for (field, what, by) in [
            ("configMap", "ConfigMap", "name"),
            ("secret", "Secret", "secretName"),
            ("downwardAPI", "DownwardAPI", ""),
        ] {
            let Some(source) = part(volume, field) else { continue };
            let shown =
                if by.is_empty() { what.to_owned() } else { format!("{what} {}", Quoted(text(source, by))) };
            clashes(items(source, ""), &name, &shown, warnings);
        }
        if let Some(projected) = part(volume, "projected") {
            let mut places = Vec::new();
            for source in list(projected, "sources") {
                if source.is_empty() {
                    warnings.push(format!("volume {name} (Projected) has no sources provided"));
                }
                places.extend(projection(source));
            }
            clashes(places, &name, "Projected", warnings);
        }
    }
}

fn clashes(places: Vec<Place<'_>>, volume: &str, shown: &str, warnings: &mut Vec<String>) {
    for (i, place) in places.iter().enumerate() {
        for other in places[..i].iter().filter(|other| place.clashes(other)) {
            let (place, other) = (place.shown(), other.shown());
            warnings.push(format!("volume {volume} ({shown}): overlapping paths: {place} with {other}"));
        }
    }
}

fn items<'a>(files: &'a Value, source: &str) -> Vec<Place<'a>> {
    list(files, "items").iter().map(|item| place(text(item, "path"), source)).collect()
}

fn place<'a>(path: &'a str, source: &str) -> Place<'a> {
    Place { path: path.trim_end_matches('/'), source: source.to_owned() }
}

fn projection(source: &Value) -> Vec<Place<'_>> {
    let has_items = |field: &str| part(source, field).filter(|files| !list(files, "items").is_empty());
    for (field, what) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        if let Some(files) = has_items(field) {
            return items(files, &format!("{what} {}", Quoted(text(files, "name"))));
        }
    }
    if let Some(files) = has_items("downwardAPI") {
        return items(files, "DownwardAPI");
    }
    if let Some(token) = part(source, "serviceAccountToken") {
        return vec![place(text(token, "path"), "ServiceAccountToken")];
    }
    if let Some(bundle) = part(source, "clusterTrustBundle") {
        let name = text_part(bundle, "name").unwrap_or_else(|| text(bundle, "signerName"));
        return vec![place(text(bundle, "path"), &format!("ClusterTrustBundle {}", Quoted(name)))];
    }
    let Some(certificate) = part(source, "podCertificate") else { return Vec::new() };
    [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ]
    .into_iter()
    .filter(|(field, _)| !text(certificate, field).is_empty())
    .map(|(field, what)| place(text(certificate, field), what))
    .collect()
}
