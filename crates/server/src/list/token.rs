//! Continue token of a list.
//!
//! The format and the error messages are upstream's. A token also contains its time of issue: it expires
//! independently of compaction.

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use setpoint_api::{Map, Revision, Time, Value, json};

const VERSION: &str = "meta.k8s.io/v1";
/// Upstream's decoding: without padding, and with any trailing bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, CONFIG);
const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_encode_padding(false)
    .with_decode_padding_mode(DecodePaddingMode::RequireNone)
    .with_decode_allow_trailing_bits(true);

/// A decoded continue token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContinueToken {
    /// Revision of the list; `None` to continue at the newest one.
    pub revision: Option<Revision>,
    /// Time of the previous page.
    pub issued: Time,
    /// Path of the last object of the previous page.
    pub after: String,
}

/// Failure to decode a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ContinueTokenError {
    #[error("continue key is not valid: illegal base64 data at input byte {0}")]
    Base64(usize),
    #[error("continue key is not valid: {0}")]
    Json(String),
    #[error("continue key is not valid: json: cannot unmarshal {0}")]
    Type(&'static str),
    #[error("continue key is not valid: server does not recognize this encoded version {0}")]
    Version(String),
    #[error("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")]
    Revision,
    #[error("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")]
    Empty,
    #[error("continue key is not valid: {0}")]
    Path(String),
}

impl ContinueToken {
    pub fn to_text(&self) -> String {
        let revision = self.revision.map_or(-1, |revision| i64::try_from(revision.0).unwrap_or(i64::MAX));
        let mut map = Map::with_capacity(4);
        map.insert("v", VERSION);
        map.insert("rv", revision);
        // The next possible path is the same one with a zero byte appended.
        map.insert("start", format!("{}\0", self.after));
        map.insert("at", self.issued.0);
        BASE64.encode(json::to_vec(&map.into()))
    }

    pub fn parse(text: &str) -> Result<ContinueToken, ContinueTokenError> {
        let bytes =
            BASE64.decode(text).map_err(|error| ContinueTokenError::Base64(position(&error, text)))?;
        let value =
            json::parse(&bytes).map_err(|error| ContinueTokenError::Json(error_message(&error, &bytes)))?;
        if value.as_map().is_none() {
            return Err(ContinueTokenError::Type("value into Go value of type storage.continueToken"));
        }
        if value.str_at(&["v"]) != VERSION {
            return Err(ContinueTokenError::Version(value.str_at(&["v"]).to_owned()));
        }
        let number = |name: &str| value.get(name).and_then(Value::as_i64);
        let revision = match number("rv") {
            None | Some(0) => return Err(ContinueTokenError::Revision),
            Some(number) => u64::try_from(number).ok().map(Revision),
        };
        let start = value.str_at(&["start"]);
        if start.is_empty() {
            return Err(ContinueTokenError::Empty);
        }
        let after = start.strip_suffix('\0').unwrap_or(start);
        let path = after.strip_prefix('/').unwrap_or(after);
        if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(ContinueTokenError::Path(start.to_owned()));
        }
        // A token without a time was not issued here, and has expired.
        let issued = Time(number("at").unwrap_or(i64::MIN / 2));
        Ok(ContinueToken { revision, issued, after: path.to_owned() })
    }
}

/// Error message for malformed JSON. Upstream decodes tokens with another decoder than bodies: it shows a byte that
/// is not text as its number.
fn error_message(error: &json::JsonError, bytes: &[u8]) -> String {
    match error {
        json::JsonError::InvalidCharacter { byte, context, offset } if *byte >= 0x80 => {
            match bytes[*offset..].utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next()) {
                Some(char) => format!("invalid character '{char}' {context}"),
                None => format!("invalid character '\\x{byte:02x}' {context}"),
            }
        }
        error => error.to_string(),
    }
}

/// Offset at which upstream's decoder stops.
fn position(error: &base64::DecodeError, text: &str) -> usize {
    match error {
        base64::DecodeError::InvalidByte(offset, _) | base64::DecodeError::InvalidLastSymbol(offset, _) => {
            *offset
        }
        base64::DecodeError::InvalidLength(_) => text.len().saturating_sub(1),
        base64::DecodeError::InvalidPadding => text.find('=').unwrap_or(text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_token_round_trips() {
        for revision in [Some(Revision(7)), None] {
            let token = ContinueToken { revision, issued: Time(-3), after: "a/ü".into() };
            assert_eq!(ContinueToken::parse(&token.to_text()), Ok(token));
        }
    }

    #[test]
    fn malformed_continue_tokens_have_upstreams_messages() {
        let encoded = |text: &str| BASE64.encode(text);
        for (text, expected) in [
            ("nonsense".to_owned(), "invalid character '\\x9e' looking for beginning of value"),
            ("a b".to_owned(), "illegal base64 data at input byte 1"),
            ("abcde".to_owned(), "illegal base64 data at input byte 4"),
            ("YQ==".to_owned(), "illegal base64 data at input byte 2"),
            (encoded("{"), "unexpected end of JSON input"),
            (encoded("7"), "json: cannot unmarshal value into Go value of type storage.continueToken"),
            (encoded("{\"v\":\"x\"}"), "server does not recognize this encoded version x"),
            (
                encoded("{\"v\":\"meta.k8s.io/v1\"}"),
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                encoded("{\"v\":\"meta.k8s.io/v1\",\"rv\":1}"),
                "encoded start key empty (version meta.k8s.io/v1)",
            ),
            (encoded("{\"v\":\"meta.k8s.io/v1\",\"rv\":1,\"start\":\"../x\"}"), "../x"),
        ] {
            let error = ContinueToken::parse(&text).unwrap_err().to_string();
            assert_eq!(error, format!("continue key is not valid: {expected}"), "{text}");
        }
    }
}
