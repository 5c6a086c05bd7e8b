//! Output of certificates: an aligned table, or a document.

use setpoint_api::printing::human_duration;
use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Time, Value, value};

use super::rows::{CertificateRow, Renewal};

/// Space between columns.
const GAP: usize = 3;

/// Formats a table.
pub fn format(rows: &[CertificateRow], is_wide: bool, now: Time) -> String {
    let mut head = vec!["NAME", "SUBJECT", "ISSUER", "EXPIRES", "REMAINING", "RENEWED"];
    if is_wide {
        head.extend(["ISSUED", "SOURCE"]);
    }
    let mut lines: Vec<Vec<String>> = vec![head.into_iter().map(str::to_owned).collect()];
    lines.extend(rows.iter().map(|row| cells(row, is_wide, now)));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let padded: String = line
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<pad$}", pad = width + GAP))
            .collect();
        text.push_str(padded.trim_end());
        text.push('\n');
    }
    text
}

fn cells(row: &CertificateRow, is_wide: bool, now: Time) -> Vec<String> {
    let none = || "<none>".to_owned();
    let or_none = |text: &str| if text.is_empty() { none() } else { text.to_owned() };
    let (subject, issuer, expires, remaining, issued) = match &row.certificate {
        None => (none(), none(), "never".to_owned(), none(), none()),
        Some(one) => (
            or_none(&one.subject),
            or_none(&one.issuer),
            Seconds(one.end).to_string(),
            remaining(one.end, now),
            Seconds(one.begin).to_string(),
        ),
    };
    let mut cells = vec![row.name.clone(), subject, issuer, expires, remaining, renewal(row.renewal)];
    if is_wide {
        cells.extend([issued, row.source.clone()]);
    }
    cells
}

fn remaining(end: Time, now: Time) -> String {
    if now > end { format!("expired {} ago", human_duration(end, now)) } else { human_duration(now, end) }
}

fn renewal(renewal: Renewal) -> String {
    match renewal {
        Renewal::Server(at) => format!("by setpoint up, from {} on", Seconds(at)),
        Renewal::Rewritten => "by setpoint up, with its certificates".to_owned(),
        Renewal::Owner => "by its owner".to_owned(),
        Renewal::Never => "never".to_owned(),
    }
}

/// Document for JSON and YAML.
pub fn document(rows: &[CertificateRow], now: Time) -> Value {
    let items = rows.iter().map(|row| {
        let mut item = value!({
            "name": (row.name.as_str()), "source": (row.source.as_str()), "renewed": (renewal(row.renewal)),
        });
        if let (Some(one), Some(state)) = (&row.certificate, row.state(now)) {
            let fields = item.make_map();
            fields.insert("subject", one.subject.as_str());
            fields.insert("issuer", one.issuer.as_str());
            fields.insert("notBefore", Seconds(one.begin).to_string());
            fields.insert("notAfter", Seconds(one.end).to_string());
            fields.insert("remainingSeconds", (one.end.0 - now.0) / 1_000_000);
            fields.insert("state", state.as_str());
        }
        item
    });
    value!({"certificates": (Value::List(items.collect()))})
}

#[cfg(test)]
mod tests {
    use setpoint_api::kinds::certificates::expiry::read_pem;
    use setpoint_pki::certs::Pki;

    use super::*;

    const NOW: Time = Time::from_seconds(1_790_000_000);

    fn rows() -> Vec<CertificateRow> {
        let pki = Pki::ephemeral(&["localhost".to_owned()], NOW, 1).unwrap();
        let certificate = read_pem(pki.admin.certificate.as_bytes()).pop();
        let row = |name: &str, certificate, renewal| CertificateRow {
            name: name.to_owned(),
            certificate,
            renewal,
            source: "file".to_owned(),
        };
        vec![row("admin", certificate, Renewal::Owner), row("key", None, Renewal::Never)]
    }

    #[test]
    fn columns_are_aligned() {
        let expected = "\
NAME    SUBJECT                                ISSUER          EXPIRES                REMAINING   RENEWED
admin   O=system:masters,CN=kubernetes-admin   CN=kubernetes   2027-09-21T14:13:20Z   365d        by its owner
key     <none>                                 <none>          never                  <none>      never
";
        assert_eq!(format(&rows(), false, NOW), expected);
        let later = Time::from_seconds(1_790_000_000 + 375 * 24 * 3600);
        assert!(format(&rows(), false, later).contains(" expired 10d ago "));
        assert!(
            format(&rows(), true, NOW).lines().all(|line| line.ends_with("SOURCE") || line.ends_with("file"))
        );
    }

    #[test]
    fn document_has_the_state_of_each_certificate() {
        let document = document(&rows(), NOW);
        let items = document.get("certificates").and_then(Value::as_list).unwrap();
        assert_eq!(items[0].str_at(&["state"]), "Valid");
        assert_eq!(items[0].get("remainingSeconds"), Some(&Value::Int(365 * 24 * 3600)));
        assert_eq!(items[1].get("state"), None);
    }
}
