//! The JSON of a status.

use std::io::Write as _;

use super::{Details, Status};
use crate::json::write_str;

impl Status {
    /// Appends the JSON to `out`, without a line break at its end.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"kind":"Status","apiVersion":"v1","metadata":{"#);
        if let Some(token) = &self.continue_token {
            out.extend_from_slice(br#""continue":"#);
            write_str(token, out);
        }
        out.extend_from_slice(br#"},"status":"#);
        write_str(if self.success { "Success" } else { "Failure" }, out);
        let mut fields = Fields { out, first: false };
        fields.text("message", &self.message);
        fields.text("reason", self.reason.as_str());
        if let Some(details) = &self.details {
            fields.name("details");
            write_details(fields.out, details);
        }
        fields.number("code", self.code.into());
        out.push(b'}');
    }

    /// The JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + self.message.len());
        self.write_json(&mut out);
        out
    }
}

fn write_details(out: &mut Vec<u8>, details: &Details) {
    out.push(b'{');
    let mut fields = Fields { out, first: true };
    fields.text("name", &details.name);
    fields.text("group", &details.group);
    fields.text("kind", &details.kind);
    fields.text("uid", &details.uid);
    if !details.causes.is_empty() {
        fields.name("causes");
        fields.out.push(b'[');
        for (i, cause) in details.causes.iter().enumerate() {
            fields.out.extend_from_slice(if i == 0 { b"{" } else { b",{" });
            let mut fields = Fields { out: fields.out, first: true };
            fields.text("reason", &cause.reason);
            fields.text("message", &cause.message);
            fields.text("field", &cause.field);
            fields.out.push(b'}');
        }
        fields.out.push(b']');
    }
    fields.number("retryAfterSeconds", details.retry_after_seconds);
    out.push(b'}');
}

/// Writes the fields of one object; empty ones are left out.
struct Fields<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl Fields<'_> {
    fn name(&mut self, name: &str) {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        write_str(name, self.out);
        self.out.push(b':');
    }

    fn text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.name(name);
            write_str(text, self.out);
        }
    }

    fn number(&mut self, name: &str, number: i32) {
        if number != 0 {
            self.name(name);
            write!(self.out, "{number}").expect("a Vec takes all bytes");
        }
    }
}
