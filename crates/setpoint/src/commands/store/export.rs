//! Export format: a header as a line of JSON, then one line per object.
//!
//! ```text
//! {"export":"setpoint","format":1,"objects":1,"revision":17}
//! {"resource":"pods","path":"shop/web","revision":12,"time":1700000000000000,"value":"{…}","hole":24,…}
//! ```
//!
//! A value that is not UTF-8 is written in hexadecimal, as `valueHex`. Format 2 has lines of sealed objects too, with
//! the id of the key, and the value and envelope in base64:
//!
//! ```text
//! {"resource":"secrets","path":"shop/db","revision":9,"time":…,"sealed":{"key":"k8s:enc:…","tag":11,"data":"…"}}
//! ```

use std::io::{self, BufRead, Write};

use anyhow::{Context, anyhow, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};
use setpoint_api::{Key, Resource, Revision, Time};
use setpoint_store::commit::{LogWrite, RecordBody};
use setpoint_store::log::{open_write, seal_record};
use setpoint_store::record::{EncodedPairs, RecordEnvelope};
use setpoint_store::seal::{SealedBytes, SealedWrite};
use setpoint_store::{Commit, CommitCause, Record, Sealer, Snapshot};

use super::sealed::SealedWrites;

/// Newest format.
const FORMAT: u64 = 2;
/// Format without sealed objects.
const PLAIN_FORMAT: u64 = 1;

/// Source of sealed objects.
pub enum Seals<'a> {
    /// Objects that were left sealed are copied.
    Copied(SealedWrites),
    /// Objects are sealed with the keys in use.
    New(&'a dyn Sealer),
}

/// Writes all objects of a snapshot.
pub fn write(snapshot: &Snapshot, seals: &Seals<'_>, out: &mut dyn Write) -> io::Result<()> {
    let revision = snapshot.revision().0;
    let is_plain = matches!(seals, Seals::Copied(writes) if writes.is_empty());
    let format = if is_plain { PLAIN_FORMAT } else { FORMAT };
    let header =
        json!({"export": "setpoint", "format": format, "objects": snapshot.len(), "revision": revision});
    writeln!(out, "{header}")?;
    for (resource, table) in snapshot.tables() {
        for record in table.iter() {
            let line = match sealed(resource, record, seals)? {
                Some(write) => export_sealed(resource, record, &write),
                None => export_object(resource, record),
            };
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

fn sealed(resource: &Resource, record: &Record, seals: &Seals<'_>) -> io::Result<Option<SealedWrite>> {
    match seals {
        Seals::New(sealer) => seal_record(resource, record, *sealer).map_err(io::Error::other),
        Seals::Copied(writes) => {
            let found = writes.get(&(resource.clone(), record.path().to_owned()));
            let current = found.filter(|(revision, _)| *revision == record.revision());
            Ok(current.map(|(_, write)| write.clone()))
        }
    }
}

fn export_sealed(resource: &Resource, record: &Record, write: &SealedWrite) -> Value {
    json!({
        "resource": resource.as_str(),
        "path": record.path(),
        "revision": record.revision().0,
        "time": record.time().0,
        "sealed": {"key": &*write.sealed.key, "tag": write.tag, "data": BASE64.encode(&write.sealed.bytes)},
    })
}

fn export_object(resource: &Resource, record: &Record) -> Value {
    let body = record.body();
    let attributes = record.attributes();
    let cause = attributes.cause();
    let pairs = |pairs: setpoint_store::record::AttributePairs<'_>| -> Value {
        pairs.map(|(key, value)| (key.to_owned(), Value::from(value))).collect::<Map<_, _>>().into()
    };
    let mut line = json!({
        "resource": resource.as_str(),
        "path": record.path(),
        "revision": record.revision().0,
        "time": record.time().0,
        "labels": pairs(attributes.labels()),
        "fields": pairs(attributes.fields()),
        "cause": {
            "user": cause.user,
            "manager": cause.manager,
            "reconciler": cause.reconciler,
            "seen": cause.seen.0,
            "paths": cause.paths,
        },
    });
    match std::str::from_utf8(&body.bytes) {
        Ok(text) => line["value"] = text.into(),
        Err(_) => {
            line["valueHex"] = body.bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
        }
    }
    if let Some(revision_offset) = body.revision_offset {
        line["hole"] = revision_offset.into();
    }
    if let Some(expires) = body.expires {
        line["expires"] = expires.0.into();
    }
    line
}

/// Reads the output of [`write()`], completely or not at all.
pub fn read(input: impl BufRead, sealer: Option<&dyn Sealer>) -> anyhow::Result<Snapshot> {
    let mut lines = input.lines();
    let header = lines.next().context("the export is empty")?.context("cannot read the export")?;
    let header: Value = serde_json::from_str(&header).context("not a setpoint export")?;
    ensure!(header["export"] == "setpoint", "not a setpoint export");
    ensure!(
        header["format"] == FORMAT || header["format"] == PLAIN_FORMAT,
        "unsupported export format {}: this version reads formats up to {FORMAT}",
        header["format"]
    );
    let revision = Revision(header["revision"].as_u64().context("the export has no revision")?);
    let mut objects = Vec::new();
    for (number, line) in lines.enumerate() {
        let line = line.context("cannot read the export")?;
        let parsed =
            parse_object(&line, sealer).with_context(|| format!("line {} of the export", number + 2))?;
        ensure!(
            parsed.revision <= revision,
            "line {} of the export: its revision is newer than the export",
            number + 2
        );
        objects.push(parsed);
    }
    let expected = header["objects"].as_u64();
    ensure!(
        expected == Some(objects.len() as u64),
        "the export is truncated: expected {} objects, found {}",
        header["objects"],
        objects.len()
    );
    Snapshot::from_objects(revision, objects).context("the export contains an invalid object")
}

fn parse_object(line: &str, sealer: Option<&dyn Sealer>) -> anyhow::Result<Commit> {
    let line: Value = serde_json::from_str(line)?;
    let text = |name: &str| line[name].as_str().with_context(|| format!("{name} is missing"));
    let key = Key::from_path(&Resource::new(text("resource")?)?, text("path")?)?;
    let revision = Revision(line["revision"].as_u64().context("revision is missing")?);
    let time = Time(line["time"].as_i64().context("time is missing")?);
    if line.get("sealed").is_some() {
        let sealer = sealer.context(
            "the object is encrypted: set --encryption-provider-config to the configuration with its key",
        )?;
        let write = open_write(&key, revision, &parse_sealed(&line["sealed"])?, sealer)?;
        return Ok(Commit { revision, time, writes: vec![write] });
    }
    let bytes = match line["valueHex"].as_str() {
        Some(hex) => decode_hex(hex)?,
        None => text("value")?.as_bytes().to_vec(),
    };
    let revision_offset = line["hole"].as_u64().map(u32::try_from).transpose()?;
    ensure!(
        revision_offset.is_none_or(|revision_offset| revision_offset as usize <= bytes.len()),
        "hole is greater than the length of the value"
    );
    let cause = CommitCause {
        user: line["cause"]["user"].as_str().unwrap_or_default().to_owned(),
        manager: line["cause"]["manager"].as_str().unwrap_or_default().to_owned(),
        reconciler: line["cause"]["reconciler"].as_str().unwrap_or_default().to_owned(),
        seen: Revision(line["cause"]["seen"].as_u64().unwrap_or_default()),
        paths: line["cause"]["paths"].as_array().map(|paths| strings(paths)).unwrap_or_default(),
    };
    let envelope = RecordEnvelope::encode(&cause, &pairs(&line["labels"]), &pairs(&line["fields"]));
    let body =
        RecordBody { bytes: bytes.into(), revision_offset, expires: line["expires"].as_i64().map(Time) };
    Ok(Commit { revision, time, writes: vec![LogWrite { key, body: Some(body), envelope, sealed: None }] })
}

fn parse_sealed(sealed: &Value) -> anyhow::Result<SealedWrite> {
    let tag = sealed["tag"].as_u64().context("sealed.tag is missing")?;
    let data = BASE64.decode(sealed["data"].as_str().context("sealed.data is missing")?);
    Ok(SealedWrite {
        tag: tag.try_into().context("sealed.tag is out of range")?,
        sealed: SealedBytes {
            key: sealed["key"].as_str().context("sealed.key is missing")?.into(),
            bytes: data.context("sealed.data is not base64")?.into(),
        },
    })
}

fn strings(values: &[Value]) -> Vec<String> {
    values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

fn pairs(value: &Value) -> EncodedPairs {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key, value.as_str()?))).collect()
}

fn decode_hex(hex: &str) -> anyhow::Result<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).map_err(|_| anyhow!("valueHex is not hexadecimal"))?;
        u8::from_str_radix(pair, 16).map_err(|_| anyhow!("valueHex is not hexadecimal"))
    });
    digits.collect()
}
