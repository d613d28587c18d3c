//! Memory of the server and its git processes under packs whose deltas expand to much more than their size.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;
use sha1::{Digest, Sha1};

use crate::support::attacks::Attack;
use crate::support::git::Work;
use crate::support::process::{Process, Site, TOKEN};
use crate::support::{Client, DatabaseKind};

/// ID of the tree without entries.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
/// Type of a commit in a pack.
const COMMIT: u8 = 1;
/// Type of a tree in a pack.
const TREE: u8 = 2;
/// Type of a file in a pack.
const BLOB: u8 = 3;
/// Type of a delta of an earlier object in a pack.
const OFFSET_DELTA: u8 = 6;
/// Size of the base of a bomb, and of each copy.
const BASE: usize = 1 << 16;

/// A pack that is written entry by entry.
struct Pack {
    bytes: Vec<u8>,
    objects: u32,
}

impl Pack {
    fn new() -> Self {
        Self { bytes: b"PACK\0\0\0\x02\0\0\0\0".to_vec(), objects: 0 }
    }

    /// Adds an entry and returns its offset. `base` is the encoded distance of a delta to its base.
    fn add(&mut self, kind: u8, base: &[u8], content: &[u8]) -> usize {
        let offset = self.bytes.len();
        let mut size = content.len();
        let mut byte = (kind << 4) | (size & 15) as u8;
        size >>= 4;
        while size > 0 {
            self.bytes.push(byte | 0x80);
            byte = (size & 0x7f) as u8;
            size >>= 7;
        }
        self.bytes.push(byte);
        self.bytes.extend_from_slice(base);
        let mut encoder = ZlibEncoder::new(&mut self.bytes, Compression::best());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap();
        self.objects += 1;
        offset
    }

    /// Adds a small file, and a delta of it that expands to `size` zeros.
    fn add_bomb(&mut self, size: usize) {
        let base = self.add(BLOB, &[], &[0; BASE]);
        let mut delta = [varint(BASE), varint(size)].concat();
        // Each byte copies the whole base, which is the default length of a copy.
        delta.resize(delta.len() + size / BASE, 0x80);
        let distance = distance(self.bytes.len() - base);
        self.add(OFFSET_DELTA, &distance, &delta);
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes[8..12].copy_from_slice(&self.objects.to_be_bytes());
        let checksum = Sha1::digest(&self.bytes);
        self.bytes.extend_from_slice(&checksum);
        self.bytes
    }
}

/// Encodes a size at the start of a delta.
fn varint(mut size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while size > 0x7f {
        bytes.push((size & 0x7f) as u8 | 0x80);
        size >>= 7;
    }
    bytes.push(size as u8);
    bytes
}

/// Encodes the distance of a delta to its base.
fn distance(mut distance: usize) -> Vec<u8> {
    let mut bytes = vec![(distance & 0x7f) as u8];
    while distance > 0x7f {
        distance = (distance >> 7) - 1;
        bytes.insert(0, (distance & 0x7f) as u8 | 0x80);
    }
    bytes
}

/// The request of a push of a bomb.
fn bomb_push(branch: &str, size: usize) -> Vec<u8> {
    let commit =
        format!("tree {EMPTY_TREE}\nauthor A <a@example.com> 1 +0000\ncommitter A <a@example.com> 1 +0000\n\nx\n");
    let id = hex::encode(Sha1::digest(format!("commit {}\0{commit}", commit.len())));
    let mut pack = Pack::new();
    pack.add(COMMIT, &[], commit.as_bytes());
    pack.add(TREE, &[], b"");
    pack.add_bomb(size);
    let line = format!("{} {id} refs/heads/{branch}\0report-status side-band-64k", "0".repeat(40));
    let mut request = format!("{:04x}{line}0000", line.len() + 4).into_bytes();
    request.extend_from_slice(&pack.finish());
    request
}

async fn push_of_delta_bomb_is_rejected_with_its_limit() {
    let site = Site::migrated(&DatabaseKind::Sqlite).await;
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    // Also installs the cryptography of the other client.
    Client::new(&server.base, None).get("//-/liveness").await.expect(200);
    let mut attack = Attack::start("push of a delta bomb", &server);
    let client = reqwest::Client::new();
    let pushes = join_all((0..6).map(|number| {
        let body = bomb_push(&format!("bomb-{number}"), 2 << 30);
        assert!(body.len() < 16 << 10, "{}", body.len());
        let address = format!("{}/root/p.git/git-receive-pack", server.base);
        let request = client.post(address).basic_auth("root", Some(TOKEN));
        let request = request.header("Content-Type", "application/x-git-receive-pack-request");
        async { request.body(body).send().await.unwrap().text().await.unwrap() }
    }));
    let reports = attack.probed(pushes).await;
    for report in reports {
        assert!(report.contains("error: The pack contains an object that takes too much memory"), "{report}");
        assert!(report.contains("the limit is 224 MiB") && report.contains("Git LFS"), "{report}");
        assert!(report.contains("unpack index-pack abnormal exit"), "{report}");
    }
    attack.check();
    // The next push succeeds.
    work.commit("more", "x").await;
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    assert!(!work.git(&["ls-remote", &server.address("p")]).await.contains("bomb"));
    server.stop().await;
}

/// Imports a repository with a bomb as the file `zeros` into the public project `root/p`; returns the ID of the file.
async fn import_bomb(site: &Site, server: &Process, size: usize) -> String {
    let work = Work::new().await;
    let mut pack = Pack::new();
    pack.add_bomb(size);
    let path = work.path.join(".git/objects/pack/bomb.pack");
    std::fs::write(&path, pack.finish()).unwrap();
    let path = path.to_str().unwrap().to_owned();
    work.git(&["index-pack", &path]).await;
    let listed = work.git(&["cat-file", "--batch-check", "--batch-all-objects"]).await;
    let line = listed.lines().find(|line| line.ends_with(&format!("blob {size}"))).expect("the bomb");
    let id = line.split(' ').next().unwrap().to_owned();
    work.git(&["update-index", "--add", "--cacheinfo", &format!("100644,{id},zeros")]).await;
    work.git(&["commit", "--quiet", "-m", "Add zeros"]).await;
    site.import("p", &work.path).await;
    let client = Client::new(&server.base, Some(TOKEN));
    client.put("/projects/root%2Fp", json!({"visibility": "public"})).await.expect(200);
    id
}

async fn readers_of_delta_bomb_use_bounded_memory() {
    const SIZE: usize = 200 << 20;
    // Together they would take more than the git processes may use.
    const READERS: usize = 6;
    let site = Site::migrated(&DatabaseKind::Sqlite).await;
    let server = site.serve(&[]).await;
    let id = import_bomb(&site, &server, SIZE).await;
    let mut attack = Attack::start("readers of a delta bomb", &server);
    let anonymous = reqwest::Client::new();
    let read = |path: String| {
        let request = anonymous.get(format!("{}/api/v4/projects/root%2Fp/repository/{path}", server.base));
        async {
            let mut response = request.send().await.unwrap();
            let mut length = 0;
            while let Some(chunk) = response.chunk().await.unwrap() {
                length += chunk.len();
            }
            (response.status().as_u16(), length)
        }
    };
    let reads = join_all((0..READERS).map(|_| read(format!("blobs/{id}/raw"))));
    let answers = attack.probed(reads).await;
    assert_eq!(answers, vec![(200, SIZE); READERS]);
    // Operations that look at files do not read it in the server.
    let others = ["commits/main/diff", "tree", "files/zeros/raw?ref=main", &format!("commits/{id}")];
    let answers = attack.probed(join_all(others.map(|path| read(path.to_owned())))).await;
    let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
    // The diff would contain the file.
    assert_eq!(statuses, [400, 200, 200, 404]);
    let client = Client::new(&server.base, None);
    client.get("/projects/root%2Fp/languages").await.expect(200);
    client.get(&format!("/projects/root%2Fp/repository/blobs/{id}")).await.expect(413);
    // Clones copy the delta as it is.
    let clones = Work::empty();
    let address = format!("{}/root/p.git", server.base);
    attack.probed(clones.git(&["clone", "--quiet", "--bare", &address, "c"])).await;
    attack.check();
    server.stop().await;
}

async fn small_file_with_large_base_is_not_read_in_the_server() {
    const SMALL: usize = 5 << 20;
    let site = Site::migrated(&DatabaseKind::Sqlite).await;
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    // Git does not use a base of more than 32 times the size.
    for (name, megabytes) in [("large", 125), ("allowed", SMALL >> 20)] {
        std::fs::write(work.path.join(name), vec![b'x'; megabytes << 20]).unwrap();
    }
    work.git(&["add", "."]).await;
    work.git(&["commit", "--quiet", "-m", "Add"]).await;
    work.git(&["repack", "--quiet", "-a", "-d", "-f"]).await;
    let base = work.git(&["cat-file", "--batch-check=%(deltabase)", "--batch-all-objects"]).await;
    let large = work.git(&["rev-parse", "HEAD:large"]).await;
    assert!(base.contains(&large), "no file is a delta of the large one: {base}");
    site.import("p", &work.path).await;
    let client = Client::new(&server.base, Some(TOKEN));
    client.put("/projects/root%2Fp", json!({"visibility": "public"})).await.expect(200);
    let mut attack = Attack::start("small file with a large base", &server);
    let reads = join_all((0..12).map(|_| async {
        let request = client.request(Method::GET, "/projects/root%2Fp/repository/files/allowed?ref=main");
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.bytes().await.unwrap().len())
    }));
    let answers = attack.probed(reads).await;
    assert!(answers.iter().all(|(status, _)| matches!(status, 200 | 503)), "{answers:?}");
    assert!(answers.iter().any(|(status, length)| *status == 200 && *length > SMALL), "{answers:?}");
    attack.check();
    server.stop().await;
}

/// Commits with long messages; the last is on the branch `main`, and a tag with a long message points to each.
const LARGE_COMMITS: usize = 8;
/// Size of each message. A commit of at most 12 MiB is read in the server.
const MESSAGE_BYTES: usize = 11 << 20;

async fn large_messages_use_bounded_memory() {
    let site = Site::migrated(&DatabaseKind::Sqlite).await;
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    // Reading a delta takes the memory of its base, too.
    work.git(&["config", "pack.depth", "0"]).await;
    let message = work.path.join(".git/message");
    std::fs::write(&message, "x".repeat(MESSAGE_BYTES)).unwrap();
    let message = message.to_str().unwrap();
    for number in 0..LARGE_COMMITS {
        work.git(&["commit", "--quiet", "--allow-empty", "-F", message]).await;
        work.git(&["branch", &format!("b{number}")]).await;
        work.git(&["tag", "-a", "-F", message, &format!("v{number}")]).await;
    }
    site.import("p", &work.path).await;
    let owner = Client::new(&server.base, Some(TOKEN));
    owner.put("/projects/root%2Fp", json!({"visibility": "public"})).await.expect(200);
    let mut attack = Attack::start("lists of commits with long messages", &server);
    let client = Client::new(&server.base, None);
    let paths = ["commits", "branches", "tags", "compare?from=main~8&to=main&straight=true"];
    let reads = join_all(paths.iter().cycle().take(4 * paths.len()).map(|path| {
        let request = client.request(Method::GET, &format!("/projects/root%2Fp/repository/{path}"));
        async {
            let mut response = request.send().await.unwrap();
            while response.chunk().await.unwrap().is_some() {}
            response.status().as_u16()
        }
    }));
    let statuses = attack.probed(reads).await;
    assert!(statuses.iter().all(|status| matches!(status, 200 | 503)), "{statuses:?}");
    assert!(statuses.contains(&503), "{statuses:?}");
    let one = client.get("/projects/root%2Fp/repository/commits?per_page=1").await.expect(200);
    assert_eq!(one.json()[0]["message"].as_str().map(str::len), Some(MESSAGE_BYTES + 1));
    attack.check();
    server.stop().await;
}

harness::tests![
    push_of_delta_bomb_is_rejected_with_its_limit,
    readers_of_delta_bomb_use_bounded_memory,
    small_file_with_large_base_is_not_read_in_the_server,
    large_messages_use_bounded_memory,
];
