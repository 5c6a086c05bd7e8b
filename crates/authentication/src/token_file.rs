//! Static token file: lines of `token,user,uid,"group1,group2"`, as Go's CSV reader reads them.

use setpoint_api::Identity;
use thiserror::Error;

use crate::token_cache::{TokenCache, TokenDigest, TokenHasher};

/// Columns of a record: token, user name and UID.
const COLUMNS_MIN: usize = 3;

/// Malformed token file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TokenFileError {
    /// A quote within a field that is not quoted.
    #[error("parse error on line {line}, column {column}: bare \" in non-quoted field")]
    BareQuote {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A quoted field does not end with a quote.
    #[error("parse error on line {line}, column {column}: extraneous or missing \" in quoted-field")]
    Quote {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A record has too few columns.
    #[error("must have at least 3 columns (token, user name, user uid), found {0}")]
    Columns(usize),
    /// Not UTF-8.
    #[error("is not valid UTF-8")]
    Encoding,
}

/// Users by their static tokens.
#[derive(Debug)]
pub struct TokenFile {
    users: TokenCache<Identity>,
    /// Numbers of records with an empty token, which are skipped.
    pub skipped_records: Vec<usize>,
}

impl TokenFile {
    /// Parses a file.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn parse(text: &[u8], hasher: &TokenHasher) -> Result<TokenFile, TokenFileError> {
        let text = std::str::from_utf8(text).map_err(|_| TokenFileError::Encoding)?;
        let mut file = TokenFile { users: TokenCache::with_entries(usize::MAX), skipped_records: Vec::new() };
        for (number, record) in records(text)?.into_iter().enumerate() {
            let [token, user, uid, rest @ ..] = &record[..] else {
                return Err(TokenFileError::Columns(record.len()));
            };
            if token.is_empty() {
                file.skipped_records.push(number + 1);
                continue;
            }
            let groups = rest.first().map(|groups| groups.split(',').map(str::to_owned).collect());
            let mut identity = Identity::new(user.as_str(), groups.unwrap_or_default());
            identity.uid.clone_from(uid);
            file.users.insert(hasher.digest(token, &[]), identity);
        }
        Ok(file)
    }

    /// Returns the user of a token, which is compared by its keyed hash.
    #[must_use]
    pub fn identity(&self, digest: &TokenDigest) -> Option<&Identity> {
        self.users.get(digest)
    }
}

/// Splits a file into records of fields. Empty lines are skipped.
fn records(text: &str) -> Result<Vec<Vec<String>>, TokenFileError> {
    let mut records = Vec::new();
    let mut lines = text.split_inclusive('\n').enumerate();
    while let Some((number, line)) = lines.next() {
        let line = without_end(line);
        if line.is_empty() {
            continue;
        }
        let mut record = Vec::with_capacity(COLUMNS_MIN + 1);
        let (mut number, mut line) = (number + 1, line);
        let mut rest = line;
        loop {
            let column = |rest: &str| line.len() - rest.len() + 1;
            let Some(mut quoted) = rest.strip_prefix('"') else {
                let (field, after) =
                    rest.split_once(',').map_or((rest, None), |(field, after)| (field, Some(after)));
                if let Some(at) = field.find('"') {
                    return Err(TokenFileError::BareQuote { line: number, column: column(rest) + at });
                }
                record.push(field.to_owned());
                match after {
                    Some(after) => rest = after,
                    None => break,
                }
                continue;
            };
            let mut field = String::new();
            let after = loop {
                let Some((part, after)) = quoted.split_once('"') else {
                    // The field continues on the next line.
                    field.push_str(quoted);
                    let end = TokenFileError::Quote { line: number, column: line.len() + 1 };
                    let (next, text) = lines.next().ok_or(end)?;
                    field.push('\n');
                    (number, line, quoted) = (next + 1, without_end(text), without_end(text));
                    continue;
                };
                field.push_str(part);
                match after.strip_prefix('"') {
                    Some(after) => {
                        field.push('"');
                        quoted = after;
                    }
                    None => break after,
                }
            };
            record.push(field);
            match after.strip_prefix(',') {
                Some(after) => rest = after,
                None if after.is_empty() => break,
                None => {
                    let column = line.len() - after.len();
                    return Err(TokenFileError::Quote { line: number, column });
                }
            }
        }
        records.push(record);
    }
    Ok(records)
}

fn without_end(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hasher() -> TokenHasher {
        TokenHasher::new([1, 2, 3, 4])
    }

    fn parse(text: &str) -> Result<TokenFile, String> {
        TokenFile::parse(text.as_bytes(), &hasher()).map_err(|error| error.to_string())
    }

    #[test]
    fn token_file_maps_tokens_to_users() {
        let text = "t1,ann,1\r\n\nt2,bob,2,devs\nt3,\"c \"\"x\"\"\",3,\"a,b\",ignored\n,nobody,9\nt1,amy,7\n";
        let file = parse(text).unwrap();
        let find = |token: &str| file.identity(&hasher().digest(token, &[])).cloned();
        let amy = find("t1").unwrap();
        assert_eq!((amy.user.as_str(), amy.uid.as_str()), ("amy", "7"), "the last record of a token wins");
        assert!(amy.groups.is_empty());
        assert_eq!(find("t2").unwrap().groups, ["devs"]);
        let quoted = find("t3").unwrap();
        assert_eq!((quoted.user.as_str(), quoted.groups.len()), ("c \"x\"", 2));
        assert_eq!(find(""), None);
        assert_eq!(file.skipped_records, [4]);
        assert_eq!(find("t4"), None);
    }

    #[test]
    fn malformed_token_file_is_rejected_with_the_place() {
        let error = |text: &str| parse(text).unwrap_err();
        assert_eq!(error("a,b\n"), "must have at least 3 columns (token, user name, user uid), found 2");
        assert_eq!(error("a,b,c\na,b\"c,d"), "parse error on line 2, column 4: bare \" in non-quoted field");
        assert_eq!(
            error("a,\"b\"c,d"),
            "parse error on line 1, column 5: extraneous or missing \" in quoted-field"
        );
        assert_eq!(
            error("a,b,\"c"),
            "parse error on line 1, column 7: extraneous or missing \" in quoted-field"
        );
        assert_eq!(TokenFile::parse(&[0xff], &hasher()).unwrap_err(), TokenFileError::Encoding);
    }

    proptest! {
        #[test]
        fn no_token_file_panics(text in "[a-c,\"\\r\\n]{0,40}") {
            let _ = parse(&text);
        }
    }
}
