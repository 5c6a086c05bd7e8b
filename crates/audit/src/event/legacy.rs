//! Legacy format: one line of text per event.

use std::fmt::Write as _;

use setpoint_api::quote::Quoted;
use setpoint_api::rfc3339::Micros;

use super::Event;

impl Event<'_> {
    /// Appends the event as one line of the legacy format. It has no objects and no annotations.
    pub fn write_legacy(&self, out: &mut Vec<u8>) {
        let (mut user, mut groups) = ("<none>", "<none>".to_owned());
        if !self.user.user.is_empty() {
            user = &self.user.user;
            if !self.user.groups.is_empty() {
                groups = quoted(&self.user.groups);
            }
        }
        let (mut as_user, mut as_groups) = ("<self>", "<lookup>".to_owned());
        if let Some(impersonated) = self.impersonated_user {
            as_user = &impersonated.user;
            if !impersonated.groups.is_empty() {
                as_groups = quoted(&impersonated.groups);
            }
        }
        let namespace = self.object.map_or("", |object| object.namespace);
        let namespace = if namespace.is_empty() { "<none>" } else { namespace };
        let code = if self.code == 0 { "<deferred>".to_owned() } else { self.code.to_string() };
        let ip = self.source_ips.first().map_or_else(|| "<unknown>".to_owned(), ToString::to_string);
        let received = Micros(self.received_at).to_string();
        let (id, stage, verb) = (Quoted(self.audit_id), self.stage.as_str(), Quoted(self.verb));
        let (user, as_user, namespace) = (Quoted(user), Quoted(as_user), Quoted(namespace));
        // Go quotes the lists twice: their elements are quoted already.
        let (groups, as_groups) = (Quoted(&groups), Quoted(&as_groups));
        let (agent, uri) = (Quoted(self.user_agent), Quoted(self.request_uri));
        let mut line = String::with_capacity(512);
        writeln!(
            line,
            "{} AUDIT: id={id} stage=\"{stage}\" ip=\"{ip}\" method={verb} user={user} groups={groups} as={as_user} \
             asgroups={as_groups} user-agent={agent} namespace={namespace} uri={uri} response=\"{code}\"",
            shorten(&received),
        )
        .expect("writing to a String cannot fail");
        out.extend_from_slice(line.as_bytes());
    }
}

/// Removes trailing zeros of the fraction, as Go's RFC 3339 format with nanoseconds does.
fn shorten(time: &str) -> String {
    let digits = time.trim_end_matches('Z').trim_end_matches('0');
    format!("{}Z", digits.trim_end_matches('.'))
}

fn quoted(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| Quoted(text).to_string()).collect();
    quoted.join(",")
}
