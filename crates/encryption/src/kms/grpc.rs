//! Framing of gRPC: unary calls without compression.

/// Path of a method of the service.
#[must_use]
pub fn path(method: &str) -> String {
    format!("/v2.KeyManagementService/{method}")
}

/// Bytes of the largest response; annotations take at most 32 KiB.
pub const RESPONSE_BYTES_MAX: usize = 256 << 10;
const PREFIX_BYTES: usize = 5;

/// Returns a message with its prefix.
#[must_use]
pub fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("requests are far smaller than 4 GiB");
    let mut out = Vec::with_capacity(PREFIX_BYTES + message.len());
    out.push(0);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(message);
    out
}

/// Returns the only message of a response.
///
/// # Errors
/// If it is compressed, or there is not exactly one message.
pub fn unframe(body: &[u8]) -> Result<&[u8], String> {
    let Some((prefix, message)) = body.split_at_checked(PREFIX_BYTES) else {
        return Err("the response has no message".to_owned());
    };
    if prefix[0] != 0 {
        return Err("the response is compressed".to_owned());
    }
    let length = prefix[1..].iter().fold(0usize, |length, byte| length << 8 | usize::from(*byte));
    if length != message.len() {
        return Err(format!("the response has {} bytes, its prefix says {length}", message.len()));
    }
    Ok(message)
}

/// Checks the status of a response: `grpc-status` and `grpc-message`.
///
/// # Errors
/// If the call failed, in the form of gRPC's errors.
pub fn check_status(status: Option<&str>, message: Option<&str>) -> Result<(), String> {
    match status.and_then(|status| status.parse::<usize>().ok()) {
        Some(0) => Ok(()),
        Some(code) => {
            let code = CODES.get(code).copied().unwrap_or("Unknown");
            Err(format!("rpc error: code = {code} desc = {}", percent_decoded(message.unwrap_or(""))))
        }
        None => Err("rpc error: code = Internal desc = the response has no status".to_owned()),
    }
}

/// Names of status codes.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// Characters of a plugin's message that are kept.
const MESSAGE_CHARS_MAX: usize = 1024;

/// Decodes `%XX`; what is not valid stays as it is. Control characters are dropped.
fn percent_decoded(text: &str) -> String {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        let decoded = hex.filter(|_| bytes[at] == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(decoded.unwrap_or(bytes[at]));
        at += if decoded.is_some() { 3 } else { 1 };
    }
    let text = String::from_utf8_lossy(&out);
    text.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_and_other_bodies_are_rejected() {
        assert_eq!(unframe(&frame(b"abc")), Ok(&b"abc"[..]));
        assert_eq!(unframe(&frame(b"")), Ok(&b""[..]));
        assert!(unframe(b"\0\0\0\0").unwrap_err().contains("no message"));
        assert!(unframe(b"\x01\0\0\0\0").unwrap_err().contains("compressed"));
        assert!(unframe(b"\0\0\0\0\x02a").unwrap_err().contains("prefix says 2"));
    }

    #[test]
    fn failed_calls_have_the_texts_of_grpc() {
        assert_eq!(check_status(Some("0"), None), Ok(()));
        assert_eq!(
            check_status(Some("14"), Some("no%20key%0A%zz")).unwrap_err(),
            "rpc error: code = Unavailable desc = no key%zz"
        );
        assert!(check_status(Some("99"), None).unwrap_err().contains("Unknown"));
        assert!(check_status(None, None).is_err());
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_responses_never_panic(body: Vec<u8>, message: String) {
            drop(unframe(&body));
            drop(check_status(Some("2"), Some(&message)));
        }
    }
}
