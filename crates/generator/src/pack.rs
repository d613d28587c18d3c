//! Packs published files: one blob of gzip members, and a table of the files.
//!
//! Small files of one media type share a member. Pages have the header and the navigation in common, so together they need
//! a third of the space (ADR 78).

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use quote::quote;

use crate::portal::{PortalFile, digest};

/// Level of the compression. Level 9 saves 1 % of the bytes and takes more than twice the time.
const LEVEL: u32 = 6;
/// Maximum number of bytes of files that share a member. A request for one of them decompresses the member.
const SHARED: usize = 256 << 10;

/// Files in the form that the server embeds.
pub struct Packed {
    /// The gzip members.
    pub blob: Vec<u8>,
    /// The table of the files, sorted by path, as an expression of Rust.
    pub table: String,
}

/// Packs files.
///
/// # Errors
/// Failures of the encoder.
pub fn pack(mut files: Vec<PortalFile>) -> Result<Packed, String> {
    files.sort_by(|one, other| (one.media_type, &one.path).cmp(&(other.media_type, &other.path)));
    let (mut blob, mut rows) = (Vec::new(), Vec::new());
    for members in shared(&files) {
        let start = blob.len();
        let mut encoder = GzEncoder::new(&mut blob, Compression::new(LEVEL));
        for file in members {
            encoder
                .write_all(&file.content)
                .map_err(|error| error.to_string())?;
        }
        encoder.finish().map_err(|error| error.to_string())?;
        let end = blob.len();
        let mut offset = 0_usize;
        for file in members {
            let (path, media_type, size) = (&file.path, file.media_type, file.content.len());
            let (tag, is_shared) = (digest(&file.content), members.len() > 1);
            let row = quote! { PublishedFile {
                path: #path, media_type: #media_type, tag: #tag, size: #size,
                start: #start, end: #end, offset: #offset, is_shared: #is_shared
            } };
            rows.push((path, row));
            offset += size;
        }
    }
    rows.sort_by_key(|(path, _)| *path);
    let rows = rows.into_iter().map(|(_, row)| row);
    Ok(Packed {
        blob,
        table: quote!(&[#(#rows),*]).to_string(),
    })
}

/// Returns the files of each member.
fn shared(mut files: &[PortalFile]) -> Vec<&[PortalFile]> {
    let mut members = Vec::new();
    while let Some(first) = files.first() {
        let mut bytes = 0;
        let fitting = files.iter().take_while(|file| {
            bytes += file.content.len();
            file.media_type == first.media_type && bytes <= SHARED
        });
        let (member, rest) = files.split_at(fitting.count().max(1));
        members.push(member);
        files = rest;
    }
    members
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn file(path: &str, media_type: &'static str, content: &str) -> PortalFile {
        PortalFile {
            path: path.to_owned(),
            media_type,
            content: content.as_bytes().to_vec(),
        }
    }

    #[test]
    fn members_of_the_blob_are_complete_and_the_table_is_sorted() {
        let files = vec![
            file("b", "text/plain", "second"),
            file("a", "text/plain", "first"),
        ];
        let packed = pack(files).unwrap_or(Packed {
            blob: Vec::new(),
            table: String::new(),
        });
        let mut text = String::new();
        let read = flate2::read::MultiGzDecoder::new(packed.blob.as_slice()).read_to_string(&mut text);
        assert_eq!((read.ok(), text.as_str()), (Some(11), "firstsecond"));
        let [first, second] = ["offset : 0usize", "offset : 5usize"].map(|field| packed.table.find(field));
        assert!(first.is_some() && first < second, "{}", packed.table);
        let end = format!("end : {}usize", packed.blob.len());
        assert_eq!(packed.table.matches(&end).count(), 2, "{}", packed.table);
    }

    #[test]
    fn small_files_of_one_type_share_a_member() {
        let large = "x".repeat(SHARED + 1);
        let files = [
            file("a", "text/html", "1"),
            file("b", "text/html", "2"),
            file("c", "text/html", &large),
            file("d", "text/html", "3"),
            file("e", "text/plain", "4"),
        ];
        let members = shared(&files);
        let paths = members
            .iter()
            .map(|member| member.iter().map(|file| file.path.as_str()).collect::<String>());
        assert_eq!(paths.collect::<Vec<_>>(), ["ab", "c", "d", "e"]);
        assert!(shared(&[]).is_empty());
    }
}
