//! Bounded gzip decompression.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// Reader of the concatenated members of a gzip file. Only zeros may follow the last member, as tools that
/// write in blocks append them.
#[derive(Debug)]
pub struct GzipReader<R: BufRead> {
    /// The current member; `None` after the last one.
    member: Option<GzDecoder<R>>,
    most: u64,
    read: u64,
}

impl<R: BufRead> GzipReader<R> {
    /// Creates a reader that fails after `most` bytes.
    pub fn new(file: R, most: u64) -> Self {
        Self {
            member: Some(GzDecoder::new(file)),
            most,
            read: 0,
        }
    }

    fn count(&mut self, further: usize) -> io::Result<usize> {
        self.read += further as u64;
        match self.read > self.most {
            true => Err(damaged(format!(
                "it is too large (maximum is {} uncompressed bytes)",
                self.most
            ))),
            false => Ok(further),
        }
    }
}

impl<R: BufRead> Read for GzipReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return self.count(read);
            }
            self.member = match self.member.take() {
                Some(ended) => next_member(ended.into_inner())?,
                None => None,
            };
        }
        Ok(0)
    }
}

/// Returns the next member, or `None` if only zeros follow.
fn next_member<R: BufRead>(mut file: R) -> io::Result<Option<GzDecoder<R>>> {
    if file.fill_buf()?.first().is_some_and(|byte| *byte != 0) {
        return Ok(Some(GzDecoder::new(file)));
    }
    loop {
        let rest = file.fill_buf()?;
        if rest.iter().any(|byte| *byte != 0) {
            return Err(damaged("unexpected data after its end".to_owned()));
        }
        let length = rest.len();
        if length == 0 {
            return Ok(None);
        }
        file.consume(length);
    }
}

fn damaged(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).expect("writing");
        encoder.finish().expect("a file")
    }

    fn unpacked(file: &[u8], most: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        GzipReader::new(file, most).read_to_end(&mut content)?;
        Ok(content)
    }

    #[test]
    fn gzip_members_are_joined_and_trailing_zeros_ignored() {
        let both = [packed(b"one "), packed(b""), packed(b"two")].concat();
        for zeros in [0, 1, 10_240, 100_000] {
            let file = [both.clone(), vec![0; zeros]].concat();
            assert_eq!(unpacked(&file, 7).expect("a content"), b"one two", "{zeros}");
        }
    }

    #[test]
    fn other_data_after_gzip_member_is_rejected() {
        let archive = packed(b"one");
        for rest in [
            &b"x"[..],
            b"\x1F",
            b"\0x",
            b"\0\x1F\x8B\x08",
            &archive[..archive.len() - 1],
        ] {
            let file = [archive.clone(), rest.to_vec()].concat();
            assert!(unpacked(&file, 100).is_err(), "{rest:?}");
        }
        // A member after zeros is rejected.
        let file = [archive.clone(), vec![0; 9_000], archive].concat();
        assert!(unpacked(&file, 100).is_err());
    }

    #[test]
    fn content_over_size_limit_is_rejected() {
        let file = [packed(b"one"), packed(b"two")].concat();
        assert!(unpacked(&file, 6).is_ok());
        assert!(unpacked(&file, 5).is_err());
    }
}
