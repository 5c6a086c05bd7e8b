//! Documents about the server: discovery, OpenAPI, health, metrics, token issuer.
//!
//! Documents that clients cache have an ETag; `If-None-Match` is answered with 304.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::OnceLock;
use std::time::Duration;

use http::Method;
use http::StatusCode;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, LOCATION, VARY,
};
use setpoint_api::openapi;
use setpoint_api::resources::ResourceInfo;
use setpoint_api::rfc3339::Seconds;
use setpoint_api::status::Status;
use setpoint_api::{ResourceType, Time, Value, json};

use super::{Api, accepted_form, check_accept, not_allowed, unknown_path_error};
use crate::aggregation::merge;
use crate::aggregation::registry::Registry;
use crate::catalog::Catalog;
use crate::exchange::{Payload, Request, Response};
use crate::loop_report;
use crate::query::QueryParams;
use crate::{discovery, health, media, responses};

/// Media type of aggregated discovery.
const AGGREGATED: HeaderValue =
    HeaderValue::from_static("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
/// Media type of the OpenAPI v2 document in protobuf.
const GNOSTIC: HeaderValue =
    HeaderValue::from_static("application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JWK_SET: HeaderValue = HeaderValue::from_static("application/jwk-set+json");
/// Cache lifetime of the documents of the token issuer. A new key must be published for as long before it signs.
const ISSUER_CACHING: HeaderValue = HeaderValue::from_static("public, max-age=3600");
/// Cache lifetime of a document whose URL contains its hash.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Time to wait for the end of a turn of the loop. A turn takes milliseconds.
const LOOP_WAIT_MAX: Duration = Duration::from_secs(2);

/// Document of the token issuer.
fn cached_json(document: &Value, kind: HeaderValue) -> Response {
    let mut response = responses::json_bytes(200, vec![json::to_vec(document).into()]);
    response.headers.insert(CONTENT_TYPE, kind);
    response.headers.insert(CACHE_CONTROL, ISSUER_CACHING);
    response
}

impl Api {
    /// `/metrics`. Metrics of the store are left out if it does not respond in time.
    pub(super) async fn respond_metrics(&self) -> Response {
        let stat = health::stat(&self.store).await.ok();
        let snapshot = self.store.snapshot();
        let catalog = self.catalogs.of(&snapshot);
        let mut text = self.metrics.render(&snapshot, &catalog, stat.as_ref(), &self.inflight);
        if let Some(fairness) = &self.fairness {
            text.push_str(&fairness.metrics());
        }
        let mut response = responses::text(200, text);
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers.insert(CONTENT_TYPE, kind);
        response
    }

    pub(super) fn document(&self, request: &Request, parts: &[String]) -> Result<Response, Status> {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let measures = self.usage.get().is_some_and(|source| source.is_served());
        let catalog = self.catalogs.of(&self.store.snapshot());
        // `/`, `/apis` and `/apis/GROUP` respond to every method.
        let registry = self.aggregation.registry(&self.store.snapshot());
        if request.method != Method::GET && !matches!(parts[..], [] | ["apis"] | ["apis", _]) {
            let exists = discovery::document(&parts, &self.options.address, &catalog, measures).is_some()
                || matches!(parts[..], [".well-known", "openid-configuration"] | ["openid", "v1", "jwks"]);
            return if exists { Err(not_allowed(&request.method)) } else { missing(request) };
        }
        match parts[..] {
            [] => {
                let is_own = |path: &str| {
                    let parts: Vec<&str> = path.split('/').skip(1).collect();
                    discovery::document(&parts, "", &catalog, measures).is_some()
                };
                let remote = registry.paths().into_iter().filter(|path| !is_own(path));
                let paths = discovery::paths(self.health.paths().chain(remote), &catalog, measures);
                return Ok(responses::document(&paths));
            }
            ["openapi", ref rest @ ..] => return Ok(self.openapi(request, rest, &catalog, &registry)),
            [".well-known", "openid-configuration"] => return self.openid(request),
            ["openid", "v1", "jwks"] => return Ok(self.keys()),
            ["setpoint", "loop", ref rest @ ..] => return Ok(self.reconciling(rest)),
            ["debug", "api_priority_and_fairness", name] => {
                let dump = self.fairness.as_ref().and_then(|fairness| fairness.dump(name, &request.query));
                return Ok(dump.map_or_else(page_not_found, |dump| responses::text(200, dump)));
            }
            _ => {}
        }
        let is_wanted = media::wants_aggregated(accept(request));
        if let Some(document) = discovery::aggregated(&parts, &catalog, measures).filter(|_| is_wanted) {
            if parts == ["apis"] && !registry.is_empty() {
                let merged = self.aggregation.merged_discovery(document, &registry);
                return Ok(aggregated_response(&merged, request));
            }
            return Ok(aggregated_response(document, request));
        }
        let mut document = discovery::document(&parts, &self.options.address, &catalog, measures);
        match parts[..] {
            _ if registry.is_empty() => {}
            ["apis"] => document = document.map(|local| merge::group_list(local, &registry)),
            ["apis", group] => document = merge::group(document, group, &registry),
            _ => {}
        }
        let Some(document) = document else { return missing(request) };
        if parts == ["version"] {
            check_accept(request, &media::ACCEPTED[..1])?;
        } else {
            check_accept(request, &media::ACCEPTED)?;
            accepted_form(request)?;
        }
        Ok(responses::document(&document))
    }

    /// OpenID discovery document, for clients that verify tokens themselves.
    fn openid(&self, request: &Request) -> Result<Response, Status> {
        let authenticator = &self.authenticator;
        let document =
            authenticator.state().openid_configuration(authenticator.options(), &self.options.address);
        document.map_or_else(|| missing(request), |document| Ok(cached_json(&document, JSON)))
    }

    /// Public keys that verify tokens (JWKS).
    fn keys(&self) -> Response {
        cached_json(&self.authenticator.state().jwks(), JWK_SET)
    }

    /// State of the loop: all controllers, or the keys of one.
    fn reconciling(&self, rest: &[&str]) -> Response {
        let Some(engine) = self.engine.get() else { return page_not_found() };
        let Some(engine) = engine.try_lock_for(LOOP_WAIT_MAX) else {
            let message = "the loop is busy with one turn, please try again later";
            return responses::status(&Status::service_unavailable(message));
        };
        let document = match rest {
            [] => Some(loop_report::controllers(&engine)),
            [controller] => loop_report::keys(&engine, controller),
            _ => None,
        };
        document.map_or_else(page_not_found, |document| responses::document(&document))
    }

    /// OpenAPI documents, generated at each request and not cached.
    fn openapi(&self, request: &Request, rest: &[&str], catalog: &Catalog, registry: &Registry) -> Response {
        match rest {
            ["v2"] => {
                let merge = |local| merge::openapi_v2(local, registry, &self.aggregation.documents);
                openapi_v2(request, catalog, (!registry.is_empty()).then_some(merge))
            }
            ["v3"] => {
                let mut hashes = custom_hashes(catalog);
                hashes.extend(self.aggregation.openapi_v3_hashes(registry));
                let mut bytes = json::to_vec(&openapi::v3::index(&hashes));
                bytes.push(b'\n');
                let tag = discovery::tag(&bytes);
                with_etag(responses::json_bytes(200, vec![bytes.into()]), &tag, request)
            }
            ["v3", name @ ..] => self.openapi_v3(request, &name.join("/"), catalog),
            _ => page_not_found(),
        }
    }

    /// One document of OpenAPI v3. Under the URL with its hash it never changes.
    fn openapi_v3(&self, request: &Request, name: &str, catalog: &Catalog) -> Response {
        let group_version = name.strip_prefix("apis/").and_then(|rest| rest.split_once('/'));
        let custom = group_version.map_or_else(Vec::new, |(group, version)| {
            let is_of_version = |info: &ResourceInfo| info.group == group && info.version == version;
            catalog.custom().map(|served| &**served).filter(|served| is_of_version(&served.info)).collect()
        });
        let hash = if custom.is_empty() {
            openapi::v3::hash(name).map(Cow::Borrowed)
        } else {
            Some(Cow::Owned(custom_hash(name, custom.iter().copied())))
        };
        let Some(hash) = hash.as_deref() else { return page_not_found() };
        let query = QueryParams::parse(&request.query);
        let requested = query.get("hash");
        if !requested.is_empty() && requested != hash {
            let mut response = responses::text(301, "");
            if let Ok(place) = HeaderValue::from_str(&format!("/openapi/v3/{name}?hash={hash}")) {
                response.headers.insert(LOCATION, place);
            }
            return response;
        }
        let document = || match group_version.filter(|_| !custom.is_empty()) {
            Some(version) => Some(openapi::v3::custom_document(version, custom.iter().copied())),
            None => openapi::v3::document(name),
        };
        let document = || document().map_or_else(page_not_found, |document| responses::document(&document));
        let response =
            if matches_etag(request, hash) { responses::json_bytes(200, Vec::new()) } else { document() };
        let mut response = with_etag(response, hash, request);
        if !requested.is_empty() {
            response.headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
            let expires = http_date(self.options.clock.now().after(YEAR));
            if let Ok(expires) = HeaderValue::from_str(&expires) {
                response.headers.insert(EXPIRES, expires);
            }
        }
        response
    }
}

/// Hashes of the OpenAPI v3 documents with custom kinds, by name.
fn custom_hashes(catalog: &Catalog) -> BTreeMap<String, String> {
    let mut versions: BTreeMap<(&str, &str), Vec<&ResourceType>> = BTreeMap::new();
    for served in catalog.custom() {
        versions.entry((&*served.info.group, &*served.info.version)).or_default().push(served);
    }
    let hashed = |((group, version), types): ((&str, &str), Vec<&ResourceType>)| {
        let name = format!("apis/{group}/{version}");
        let hash = custom_hash(&name, types.into_iter());
        (name, hash)
    };
    versions.into_iter().map(hashed).collect()
}

/// Hash of a document with custom kinds. It takes the state of their definitions in place of the document, which may be
/// large: UID and revision identify them, also between clusters. The hash of a built-in document stands for the
/// generator.
fn custom_hash<'a>(name: &str, types: impl Iterator<Item = &'a ResourceType>) -> String {
    let generator = openapi::v3::hash(name).or_else(|| openapi::v3::hash("apis/apps/v1")).unwrap_or_default();
    let mut text = format!("{name} {generator}");
    for custom in types.filter_map(|served| served.custom.as_ref()) {
        let definition = &custom.kind.definition;
        let _ = write!(text, " {} {} {}", definition.name, definition.uid, custom.kind.revision.0);
    }
    discovery::tag(text.as_bytes())
}

/// The OpenAPI v2 document, as JSON or protobuf, with the documents of extension API servers if there is a `merge`. Only
/// the ETags of the built-in kinds are cached.
fn openapi_v2(request: &Request, catalog: &Catalog, merge: Option<impl FnOnce(Value) -> Value>) -> Response {
    static TAGS: [OnceLock<String>; 2] = [const { OnceLock::new() }; 2];
    let accept = accept(request).unwrap_or("*/*");
    let is_gnostic = accept.contains("proto-openapi");
    if !is_gnostic && !accept.contains("application/json") && !accept.contains('*') {
        return responses::text(406, "");
    }
    let custom = || catalog.custom().map(|served| &**served);
    let kept = &TAGS[usize::from(is_gnostic)];
    let own = OnceLock::new();
    let kept = if merge.is_some() {
        // The tag of a merged document follows from its content alone.
        &own
    } else if catalog.custom().next().is_some() {
        let tag = custom_hash(if is_gnostic { "gnostic" } else { "v2" }, custom());
        own.get_or_init(|| tag);
        &own
    } else {
        kept
    };
    if let Some(tag) = kept.get().filter(|tag| matches_etag(request, tag)) {
        return with_etag(responses::json_bytes(200, Vec::new()), tag, request);
    }
    let document = openapi::v2::document(discovery::VERSION, custom());
    let document = if let Some(merge) = merge { merge(document) } else { document };
    let bytes = if is_gnostic { openapi::gnostic::to_vec(&document) } else { json::to_vec(&document) };
    let tag = kept.get_or_init(|| discovery::tag(&bytes));
    let mut response = responses::json_bytes(200, vec![bytes.into()]);
    if is_gnostic {
        response.headers.insert(CONTENT_TYPE, GNOSTIC);
    }
    with_etag(response, tag, request)
}

/// Aggregated discovery, which clients may cache.
fn aggregated_response(document: &discovery::TaggedDocument, request: &Request) -> Response {
    let mut response = responses::json_bytes(200, vec![document.json.clone().into()]);
    response.headers.insert(CONTENT_TYPE, AGGREGATED);
    let mut response = with_etag(response, &document.tag, request);
    response.headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

fn accept(request: &Request) -> Option<&str> {
    request.headers.get(ACCEPT).and_then(|value| value.to_str().ok())
}

/// 404: as a `Status` below a built-in API group, as text elsewhere.
pub(super) fn missing(request: &Request) -> Result<Response, Status> {
    let mut parts = request.path.split('/').skip(1);
    let is_api = match parts.next() {
        Some("api") => true,
        Some("apis") => {
            let group = |group| discovery::document(&["apis", group], "", Catalog::built_in(), true);
            parts.next().and_then(group).is_some()
        }
        _ => false,
    };
    if is_api { Err(unknown_path_error(&request.method)) } else { Ok(page_not_found()) }
}

fn page_not_found() -> Response {
    responses::text(404, "404 page not found\n")
}

/// `true` if the client has the document with this ETag.
fn matches_etag(request: &Request, tag: &str) -> bool {
    let if_none_match =
        request.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let matches = |text: &str| text.trim().trim_start_matches("W/").trim_matches('"') == tag;
    if_none_match.split(',').any(matches)
}

/// Sets the ETag of a response; 304 if the client has it.
fn with_etag(mut response: Response, tag: &str, request: &Request) -> Response {
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{tag}\"")) {
        response.headers.insert(ETAG, tag);
    }
    response.headers.insert(VARY, HeaderValue::from_static("Accept"));
    if matches_etag(request, tag) {
        response.status = StatusCode::NOT_MODIFIED;
        response.headers.remove(CONTENT_TYPE);
        response.body = Payload::Whole(Vec::new());
    }
    response
}

/// Formats a time for an HTTP header: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(time: Time) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let text = Seconds(time).to_string();
    let day = DAYS[time.0.div_euclid(24 * 60 * 60 * 1_000_000).rem_euclid(7) as usize];
    let mut parts = text.split(['-', 'T', 'Z']);
    let mut next = || parts.next().unwrap_or_default();
    let (year, month, date, clock) = (next(), next(), next(), next());
    let month =
        month.parse().ok().and_then(|month: usize| MONTHS.get(month.checked_sub(1)?)).unwrap_or(&"Jan");
    format!("{day}, {date} {month} {year} {clock} GMT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_is_formatted_for_http_headers() {
        assert_eq!(http_date(Time::from_seconds(784_111_777)), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(Time::EPOCH), "Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
