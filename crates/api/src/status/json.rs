//! JSON encoding of a `Status`.

use std::io::Write as _;

use super::{Details, Status};
use crate::json::write_str;

impl Status {
    /// Appends the JSON to `out`, without a trailing newline.
    fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"kind":"Status","apiVersion":"v1","metadata":{"#);
        if let Some(token) = &self.continue_token {
            out.extend_from_slice(br#""continue":"#);
            write_str(token, out);
        }
        out.extend_from_slice(br#"},"status":"#);
        write_str(if self.success { "Success" } else { "Failure" }, out);
        let mut fields = FieldWriter { out, first: false };
        fields.write_text("message", &self.message);
        fields.write_text("reason", self.reason.as_str());
        if let Some(details) = &self.details {
            fields.write_name("details");
            write_details(fields.out, details);
        }
        fields.write_number("code", self.code.into());
        out.push(b'}');
    }

    /// Returns the JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + self.message.len());
        self.write_json(&mut out);
        out
    }
}

fn write_details(out: &mut Vec<u8>, details: &Details) {
    out.push(b'{');
    let mut fields = FieldWriter { out, first: true };
    fields.write_text("name", &details.name);
    fields.write_text("group", &details.group);
    fields.write_text("kind", &details.kind);
    fields.write_text("uid", &details.uid);
    if !details.causes.is_empty() {
        fields.write_name("causes");
        fields.out.push(b'[');
        for (i, cause) in details.causes.iter().enumerate() {
            fields.out.extend_from_slice(if i == 0 { b"{" } else { b",{" });
            let mut fields = FieldWriter { out: fields.out, first: true };
            fields.write_text("reason", &cause.reason);
            fields.write_text("message", &cause.message);
            fields.write_text("field", &cause.field);
            fields.out.push(b'}');
        }
        fields.out.push(b']');
    }
    fields.write_number("retryAfterSeconds", details.retry_after_seconds);
    out.push(b'}');
}

/// Writes the fields of one object and omits empty ones.
struct FieldWriter<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl FieldWriter<'_> {
    fn write_name(&mut self, name: &str) {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        write_str(name, self.out);
        self.out.push(b':');
    }

    fn write_text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.write_name(name);
            write_str(text, self.out);
        }
    }

    fn write_number(&mut self, name: &str, number: i32) {
        if number != 0 {
            self.write_name(name);
            write!(self.out, "{number}").expect("writing to a Vec cannot fail");
        }
    }
}
