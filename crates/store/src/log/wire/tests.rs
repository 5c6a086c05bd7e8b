//! Round trips of commits, and decoding of arbitrary bytes.

use proptest::prelude::*;

use super::*;
use crate::commit::CommitCause;

fn any_write() -> impl Strategy<Value = LogWrite> {
    let body = proptest::option::of((any::<Vec<u8>>(), any::<Option<u16>>(), any::<Option<i64>>()));
    let pairs = proptest::collection::vec(("[a-z]{1,4}", "[a-z]{0,4}"), 0..3);
    ("[a-z]{1,8}", "[a-z]{1,8}(/[a-z]{1,8})?", body, pairs, "[a-z]{0,5}").prop_map(
        |(resource, path, body, pairs, user)| {
            let key = Key::from_path(&Resource::new(&resource).unwrap(), &path).unwrap();
            let cause =
                CommitCause { user, seen: Revision(7), paths: vec!["spec".into()], ..CommitCause::default() };
            let pairs = pairs.into_iter().collect();
            let envelope = RecordEnvelope::encode(&cause, &pairs, &pairs);
            let body = body.map(|(bytes, revision_offset, expires)| RecordBody {
                revision_offset: revision_offset.map(|at| u32::from(at) % (bytes.len() as u32 + 1)),
                bytes: bytes.into(),
                expires: expires.map(Time),
            });
            LogWrite { key, body, envelope, sealed: None }
        },
    )
}

proptest! {
    #[test]
    fn commit_round_trips(revision: u64, time: i64, writes in proptest::collection::vec(any_write(), 0..4)) {
        let commit = Commit { revision: Revision(revision), time: Time(time), writes };
        let mut out = Vec::new();
        encode_commit(&mut out, commit.revision, commit.time, commit.writes.iter());
        let mut input = Bytes::from(out);
        prop_assert_eq!(decode_commit(&mut input, &mut Interner::default()), Ok(commit));
        prop_assert!(input.is_empty());
    }

    #[test]
    fn arbitrary_bytes_never_panic(raw: Vec<u8>) {
        let _ = decode_commit(&mut Bytes::from(raw), &mut Interner::default());
    }

    #[test]
    fn damaged_commit_is_an_error_or_another_commit(
        writes in proptest::collection::vec(any_write(), 1..3),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4),
        cut: prop::sample::Index,
    ) {
        let mut out = Vec::new();
        encode_commit(&mut out, Revision(5), Time(6), writes.iter());
        for (at, flip) in flips {
            let at = at.index(out.len());
            out[at] ^= flip;
        }
        out.truncate(cut.index(out.len()) + 1);
        let _ = decode_commit(&mut Bytes::from(out), &mut Interner::default());
    }
}
