//! Content negotiation: `Content-Type` and `Accept` headers, forms and views.

use http::header::{ACCEPT, HeaderMap, HeaderValue};
use setpoint_api::printing::table::MetaVersion;

/// Encodings of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

/// Representations of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    /// The whole object.
    Whole,
    /// A table, as `kubectl get` shows it.
    Table(MetaVersion),
    /// The metadata of an object.
    Metadata(MetaVersion),
    /// The metadata of the objects of a list.
    MetadataList(MetaVersion),
}

impl Representation {
    /// `true` for tables.
    #[must_use]
    pub(crate) fn is_table(self) -> bool {
        matches!(self, Representation::Table(_))
    }
}

/// Supported media types, for error messages.
pub(crate) const ACCEPTED: [&str; 3] =
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Removes protobuf from the accepted media types, if others are accepted: custom kinds have no protobuf form.
pub(crate) fn decline_protobuf(headers: &mut HeaderMap) {
    let Some(accept) = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()) else { return };
    let kept: Vec<&str> =
        accept.split(',').filter(|media_type| !media_type.contains("kubernetes.protobuf")).collect();
    if let Ok(kept) = HeaderValue::from_str(&kept.join(","))
        && !kept.is_empty()
    {
        headers.insert(ACCEPT, kept);
    }
}

/// Form of a body; JSON without a `Content-Type`.
#[must_use]
pub fn content_form(content_type: Option<&str>) -> Option<Form> {
    match content_type.map(|text| text.split(';').next().unwrap_or("").trim().to_ascii_lowercase()) {
        None => Some(Form::Json),
        Some(text) if text.contains('*') => None,
        Some(text) => form(&text).or((text.is_empty()).then_some(Form::Json)),
    }
}

fn form(text: &str) -> Option<Form> {
    match text {
        "application/json" | "*/*" | "application/*" => Some(Form::Json),
        "application/yaml" => Some(Form::Yaml),
        "application/vnd.kubernetes.protobuf" => Some(Form::Protobuf),
        _ => None,
    }
}

/// Media types of watches, for error messages.
pub(crate) const STREAMED: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// `true` if an `Accept` header names an offered media type, or `*/*`. This check precedes the negotiation and
/// compares the bare types, as upstream's does: parameters and `application/*` do not count.
#[must_use]
pub(crate) fn is_offered(accept: Option<&str>, offered: &[&str]) -> bool {
    let accept = accept.filter(|text| !text.is_empty()).unwrap_or("*/*");
    accept.split(',').any(|clause| {
        let media = clause.split(';').next().unwrap_or_default().trim();
        media == "*/*" || offered.contains(&media)
    })
}

/// Returns the first accepted form that `can` be served, by quality; JSON without an `Accept` header.
#[must_use]
pub fn negotiate(
    accept: Option<&str>,
    can: impl Fn(Form, Representation) -> bool,
) -> Option<(Form, Representation)> {
    let accept = accept.unwrap_or("").trim();
    if accept.is_empty() {
        return Some((Form::Json, Representation::Whole));
    }
    let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(Clause::parse).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    clauses.iter().find_map(|clause| {
        let media = (form(clause.media)?, clause.view()?);
        let streams = clause.parameter("stream").filter(|stream| !stream.is_empty());
        let is_known = streams.is_none_or(|stream| stream == "watch" && media.0 != Form::Yaml);
        (is_known && can(media.0, media.1)).then_some(media)
    })
}

/// `true` if the client prefers aggregated discovery.
#[must_use]
pub(crate) fn wants_aggregated(accept: Option<&str>) -> bool {
    let mut clauses: Vec<Clause<'_>> =
        accept.unwrap_or_default().split(',').filter_map(Clause::parse).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    let first = clauses.iter().find_map(|clause| {
        let of = ["g", "v", "as"].map(|name| clause.parameter(name).unwrap_or_default());
        match (form(clause.media)?, of) {
            (Form::Json, ["apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"]) => Some(true),
            (_, ["", "", ""]) => Some(false),
            _ => None,
        }
    });
    first == Some(true)
}

/// One alternative of an `Accept` header.
struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Clause<'a>> {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().filter(|media| !media.is_empty())?;
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        // A malformed quality counts as zero, and a zero quality is still better than a 406.
        let quality = parameters.iter().find(|(key, _)| *key == "q").map_or("1", |(_, q)| q);
        Some(Clause { media, parameters, quality: quality.parse().unwrap_or_default() })
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn view(&self) -> Option<Representation> {
        let Some(kind) = self.parameter("as") else { return Some(Representation::Whole) };
        let version = match (self.parameter("g"), self.parameter("v")) {
            (Some("meta.k8s.io"), Some("v1")) => MetaVersion::V1,
            (Some("meta.k8s.io"), Some("v1beta1")) => MetaVersion::V1Beta1,
            _ => return None,
        };
        match kind {
            "Table" => Some(Representation::Table(version)),
            "PartialObjectMetadata" => Some(Representation::Metadata(version)),
            "PartialObjectMetadataList" => Some(Representation::MetadataList(version)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregated_discovery_is_served_if_preferred() {
        let second = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let older = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        assert!(wants_aggregated(Some(&format!("{second},{older},application/json"))));
        assert!(wants_aggregated(Some(&format!("{older},{second};q=0.9,application/json;q=0.8"))));
        assert!(!wants_aggregated(Some(&format!("application/json,{second}"))));
        assert!(!wants_aggregated(Some(older)) && !wants_aggregated(Some("*/*")) && !wants_aggregated(None));
    }

    #[test]
    fn offered_media_types_are_compared_without_parameters() {
        let offered = |accept| is_offered(accept, &ACCEPTED);
        assert!(offered(None) && offered(Some("")) && offered(Some("text/html,*/*;q=0.1")));
        assert!(offered(Some("image/png, application/json;as=Nothing")));
        for refused in ["application/*", "APPLICATION/JSON", "json", ",", "text/html"] {
            assert!(!offered(Some(refused)), "{refused}");
        }
    }

    #[test]
    fn best_supported_media_type_is_chosen() {
        let any = |_, _| true;
        let json = |form, view| form == Form::Json && view == Representation::Whole;
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(negotiate(None, any), Some((Form::Json, Representation::Whole)));
        assert_eq!(negotiate(Some("*/*"), any), Some((Form::Json, Representation::Whole)));
        assert_eq!(negotiate(Some(table), any), Some((Form::Json, Representation::Table(MetaVersion::V1))));
        let older = "application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io;q=0";
        assert_eq!(
            negotiate(Some(older), any),
            Some((Form::Json, Representation::Metadata(MetaVersion::V1Beta1)))
        );
        assert_eq!(negotiate(Some("application/json;as=Table;g=meta.k8s.io"), any), None);
        assert_eq!(negotiate(Some(table), json), Some((Form::Json, Representation::Whole)));
        let both = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(negotiate(Some(both), any), Some((Form::Protobuf, Representation::Whole)));
        assert_eq!(negotiate(Some(both), json), Some((Form::Json, Representation::Whole)));
        let quality = "application/json;q=0.1,application/yaml";
        assert_eq!(negotiate(Some(quality), any), Some((Form::Yaml, Representation::Whole)));
        let streamed =
            "application/yaml;stream=watch,application/json;stream=other,application/json;stream=watch";
        assert_eq!(negotiate(Some(streamed), any), Some((Form::Json, Representation::Whole)));
        let fallback = "application/xml;q=0.9,application/yaml;q=0,*/*;q=0.1";
        assert_eq!(negotiate(Some(fallback), any), Some((Form::Json, Representation::Whole)));
        assert_eq!(negotiate(Some("text/html"), any), None);
        assert_eq!(content_form(Some("application/json; charset=utf-8")), Some(Form::Json));
        assert_eq!(content_form(Some("text/plain")).or(content_form(Some("*/*"))), None);
    }
}
