//! Encoded chunks of lists that several responses send, and their compressed form.
//!
//! A chunk is encoded once and compressed at most once, however many responses send it. The bytes of all chunks that
//! exist, in caches and in responses in flight, are counted in a [`ChunkBudget`].
//!
//! Each chunk is compressed by itself and ends at a byte boundary, so that [`Gzip`] can put one stream together from
//! compressed chunks of any origin: the header, the chunks, an empty last block, the checksum of all.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flate2::{Compress, Compression, Crc, FlushCompress};

/// Compression level of upstream's API server.
const GZIP_LEVEL: u32 = 1;
/// A gzip header without name and time, from an unknown system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// An empty final block of a deflate stream.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// Number of bytes that all encoded chunks take together, and its bound.
#[derive(Debug)]
pub struct ChunkBudget {
    used: AtomicUsize,
    bound: usize,
}

impl ChunkBudget {
    /// A budget of `bound` bytes.
    #[must_use]
    pub fn new(bound: usize) -> Arc<ChunkBudget> {
        Arc::new(ChunkBudget { used: AtomicUsize::new(0), bound })
    }

    /// `true` if there is room for `bytes` more.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(bytes) <= self.bound
    }
}

/// A chunk of a body, shared by the responses that send it.
#[derive(Debug)]
pub struct EncodedChunk {
    /// Uncompressed bytes.
    pub bytes: Bytes,
    compressed: OnceLock<Compressed>,
    budget: Arc<ChunkBudget>,
}

#[derive(Debug)]
struct Compressed {
    bytes: Bytes,
    crc: Crc,
}

impl EncodedChunk {
    /// A chunk that counts in `budget` until it is dropped.
    #[must_use]
    pub fn new(bytes: Bytes, budget: &Arc<ChunkBudget>) -> EncodedChunk {
        budget.used.fetch_add(bytes.len(), Ordering::Relaxed);
        EncodedChunk { bytes, compressed: OnceLock::new(), budget: Arc::clone(budget) }
    }

    fn compressed(&self, deflate: &mut Compress) -> &Compressed {
        self.compressed.get_or_init(|| {
            let compressed = compress(&self.bytes, deflate);
            self.budget.used.fetch_add(compressed.bytes.len(), Ordering::Relaxed);
            compressed
        })
    }
}

impl Drop for EncodedChunk {
    fn drop(&mut self) {
        let compressed = self.compressed.get().map_or(0, |compressed| compressed.bytes.len());
        self.budget.used.fetch_sub(self.bytes.len() + compressed, Ordering::Relaxed);
    }
}

/// Writer of a gzip stream, chunk by chunk.
pub(crate) struct Gzip {
    deflate: Compress,
    crc: Crc,
    has_begun: bool,
}

impl Default for Gzip {
    fn default() -> Gzip {
        let deflate = Compress::new(Compression::new(GZIP_LEVEL), false);
        Gzip { deflate, crc: Crc::new(), has_begun: false }
    }
}

impl Gzip {
    /// Returns the header at the first call, then nothing.
    fn header(&mut self) -> &'static [u8] {
        if std::mem::replace(&mut self.has_begun, true) { &[] } else { &GZIP_HEADER }
    }

    /// Appends a chunk to the stream in `out`, compressed.
    pub fn write(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.header());
        let compressed = compress(chunk, &mut self.deflate);
        out.extend_from_slice(&compressed.bytes);
        self.crc.combine(&compressed.crc);
    }

    /// As [`Gzip::write`], for a shared chunk, which is compressed only if it has not been yet.
    pub(crate) fn write_shared(&mut self, chunk: &EncodedChunk, out: &mut Vec<u8>) {
        out.extend_from_slice(self.header());
        let compressed = chunk.compressed(&mut self.deflate);
        out.extend_from_slice(&compressed.bytes);
        self.crc.combine(&compressed.crc);
    }

    /// Appends the end of the stream.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.header());
        out.extend_from_slice(&LAST_BLOCK);
        out.extend_from_slice(&self.crc.sum().to_le_bytes());
        out.extend_from_slice(&self.crc.amount().to_le_bytes());
    }
}

/// Compresses a chunk into blocks that depend on no others, the last of them not marked as the last of the stream.
fn compress(chunk: &[u8], deflate: &mut Compress) -> Compressed {
    deflate.reset();
    let mut out = Vec::with_capacity(chunk.len() / 4 + 256);
    let mut rest = chunk;
    loop {
        let before = deflate.total_in();
        deflate.compress_vec(rest, &mut out, FlushCompress::Sync).expect("there is no dictionary to miss");
        let taken = usize::try_from(deflate.total_in() - before).unwrap_or(usize::MAX);
        rest = &rest[taken.min(rest.len())..];
        if rest.is_empty() && out.len() < out.capacity() {
            break;
        }
        out.reserve(out.capacity().max(1024));
    }
    let mut crc = Crc::new();
    crc.update(chunk);
    Compressed { bytes: out.into(), crc }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use proptest::prelude::*;

    use super::*;

    fn unzip(zipped: &[u8]) -> Vec<u8> {
        let (mut out, mut rest) = (Vec::new(), zipped);
        // A decoder for one member: the stream must not be several.
        GzDecoder::new(&mut rest).read_to_end(&mut out).unwrap();
        assert!(rest.is_empty(), "bytes after the end");
        out
    }

    proptest! {
        #[test]
        fn chunks_of_any_origin_make_one_gzip_stream(
            chunks in prop::collection::vec((any::<bool>(), any::<u64>(), 0..70_000_usize), 0..6),
        ) {
            let budget = ChunkBudget::new(usize::MAX);
            let (mut gzip, mut zipped, mut plain) = (Gzip::default(), Vec::new(), Vec::new());
            for (is_shared, seed, len) in chunks {
                // Some chunks can be compressed, some cannot.
                let mut state = seed;
                let chunk: Vec<u8> = (0..len)
                    .map(|_| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        if seed % 2 == 0 { (state >> 56) as u8 } else { (state >> 62) as u8 }
                    })
                    .collect();
                plain.extend_from_slice(&chunk);
                if is_shared {
                    let chunk = EncodedChunk::new(chunk.into(), &budget);
                    gzip.write_shared(&chunk, &mut zipped);
                    let first = chunk.compressed.get().unwrap().bytes.as_ptr();
                    Gzip::default().write_shared(&chunk, &mut Vec::new());
                    prop_assert_eq!(chunk.compressed.get().unwrap().bytes.as_ptr(), first);
                } else {
                    gzip.write(&chunk, &mut zipped);
                }
            }
            gzip.end(&mut zipped);
            prop_assert!(unzip(&zipped) == plain);
            prop_assert_eq!(budget.used.load(Ordering::Relaxed), 0, "chunks that are gone take nothing");
        }
    }
}
