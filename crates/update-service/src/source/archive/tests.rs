use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits {
    member: 10_000,
    kept: 20_000,
    unpacked: 1_000_000,
};

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns at most this number of bytes at a time.
struct InPieces<'a>(&'a [u8], usize);

impl Read for InPieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(self.1);
        self.0.read(&mut buffer[..length])
    }
}

fn all(source: impl Read) -> Result<Vec<(String, Vec<u8>)>, ArchiveError> {
    let members = unpack(source, |_| true, LIMITS)?;
    Ok(members
        .into_iter()
        .map(|member| (member.path, member.bytes))
        .collect())
}

#[test]
fn members_are_found_with_long_names_and_odd_sizes() {
    let long = format!("{}/file", "directory/".repeat(30).trim_end_matches('/'));
    let files: Vec<(&str, &[u8])> = vec![
        ("./a", b"1"),
        ("empty", b""),
        (&long, b"long"),
        ("exact", &[7; 512]),
        ("z", &[9; 513]),
    ];
    let archive = tar(&files);
    for bytes in [archive.clone(), gzip(&archive)] {
        let found = all(bytes.as_slice()).unwrap();
        let names: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(names, ["a", "empty", &long, "exact", "z"]);
        assert_eq!(found[4].1, vec![9; 513]);
    }
}

#[test]
fn pax_records_name_and_size_the_next_member() {
    let mut builder = tar::Builder::new(Vec::new());
    let name = format!("release-manifests/{}", "é".repeat(80));
    builder
        .append_pax_extensions([("path", name.as_bytes()), ("mtime", b"1.5".as_slice())])
        .unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_path("short").unwrap();
    header.set_size(3);
    header.set_cksum();
    builder.append(&header, b"abc".as_slice()).unwrap();
    let found = all(builder.into_inner().unwrap().as_slice()).unwrap();
    assert_eq!(found, [(name, b"abc".to_vec())]);
}

#[test]
fn directories_and_links_are_passed_over() {
    let mut builder = tar::Builder::new(Vec::new());
    for (kind, name) in [
        (tar::EntryType::Directory, "d/"),
        (tar::EntryType::Symlink, "l"),
        (tar::EntryType::Link, "h"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        if kind != tar::EntryType::Directory {
            header.set_link_name("target").unwrap();
        }
        builder.append_data(&mut header, name, std::io::empty()).unwrap();
    }
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    builder.append_data(&mut header, "f", b"x".as_slice()).unwrap();
    assert_eq!(
        all(builder.into_inner().unwrap().as_slice()).unwrap(),
        [("f".to_owned(), b"x".to_vec())]
    );
}

#[test]
fn pax_records_may_hold_line_breaks_and_say_sizes_that_agree() {
    let with = |records: &[(&str, &[u8])]| {
        let mut builder = tar::Builder::new(Vec::new());
        builder.append_pax_extensions(records.iter().copied()).unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_path("short").unwrap();
        header.set_size(3);
        header.set_cksum();
        builder.append(&header, b"abc".as_slice()).unwrap();
        all(builder.into_inner().unwrap().as_slice())
    };
    let capability = ("SCHILY.xattr.security.capability", b"\n\n\x01\n\0\n".as_slice());
    let found = with(&[capability, ("path", b"long"), ("size", b"3")]).unwrap();
    assert_eq!(found, [("long".to_owned(), b"abc".to_vec())]);
    for size in [b"4".as_slice(), b"4000000000000", b"x"] {
        let error = with(&[("size", size)]).unwrap_err();
        assert!(matches!(error, ArchiveError::Malformed(_)), "{error}");
    }
}

#[test]
fn a_pax_record_that_cannot_be_read_is_an_error() {
    for record in ["11 path=x\n", "8 path=x\n", "x path=y\n", "path", "0 "] {
        let archive = [with_record(b'x', record.as_bytes()), tar(&[("f", b"x")])].concat();
        assert!(
            matches!(all(archive.as_slice()), Err(ArchiveError::Malformed(_))),
            "{record:?}"
        );
    }
}

/// A header of this type, with its content.
fn with_record(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_size(content.len() as u64);
    header.set_cksum();
    let padding = vec![0; content.len().next_multiple_of(512) - content.len()];
    [header.as_bytes().as_slice(), content, &padding].concat()
}

#[test]
fn records_that_name_a_member_are_bounded_and_contents_are_not() {
    let long = vec![b'a'; 100_000];
    for kind in [b'L', b'x'] {
        let archive = [with_record(kind, &long), tar(&[("f", b"x")])].concat();
        let error = all(gzip(&archive).as_slice()).unwrap_err();
        assert!(matches!(error, ArchiveError::TooLarge(_)), "{kind}: {error}");
    }
    for passed_over in [b'K', b'g'] {
        let archive = [with_record(passed_over, &long), tar(&[("f", b"x")])].concat();
        assert_eq!(all(archive.as_slice()).unwrap().len(), 1);
    }
    let archive = tar(&[("skip", &long), ("f", b"x"), ("skip", &long)]);
    let found = unpack(archive.as_slice(), |path| path == "f", LIMITS).unwrap();
    assert_eq!(found.len(), 1);
}

#[test]
fn a_name_record_names_the_next_member_alone() {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_path("d/").unwrap();
    header.set_size(0);
    header.set_cksum();
    let named = [
        with_record(b'L', b"release-manifests/\0"),
        header.as_bytes().to_vec(),
    ]
    .concat();
    let found = all([named, tar(&[("f", b"x")])].concat().as_slice()).unwrap();
    assert_eq!(found, [("f".to_owned(), b"x".to_vec())]);
}

#[test]
fn an_archive_that_is_cut_off_is_an_error() {
    let archive = tar(&[("a", &[1; 700]), ("b", b"2")]);
    let packed = gzip(&archive);
    for cut in [1, 100, 600, 1100] {
        assert!(all(&archive[..cut]).is_err(), "cut at {cut}");
    }
    for cut in [1, 12, packed.len() - 1] {
        assert!(all(&packed[..cut]).is_err(), "gzip cut at {cut}");
    }
    let mut flipped = packed.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0xff;
    assert!(all(flipped.as_slice()).is_err());
}

#[test]
fn sizes_are_bounded_whatever_the_archive_says() {
    for (files, hint) in [
        (vec![("a", vec![0; 10_001])], "more than 10000"),
        (
            vec![
                ("a", vec![0; 9_000]),
                ("b", vec![0; 9_000]),
                ("c", vec![0; 9_000]),
            ],
            "exceed 20000",
        ),
        (vec![("skip", vec![0; 2_000_000])], "1000000"),
    ] {
        let files: Vec<(&str, &[u8])> = files
            .iter()
            .map(|(name, bytes)| (*name, bytes.as_slice()))
            .collect();
        let archive = gzip(&tar(&files));
        let error = unpack(archive.as_slice(), |path| path != "skip", LIMITS).unwrap_err();
        assert!(matches!(error, ArchiveError::TooLarge(_)), "{error}");
        assert!(error.to_string().contains(hint), "{error}");
    }
}

#[test]
fn other_compressions_are_named() {
    for (magic, name) in [
        (&[0x28, 0xb5, 0x2f, 0xfd, 0][..], "zstd"),
        (b"BZh91", "bzip2"),
        (b"\xfd7zXZ", "xz"),
    ] {
        let error = all(magic).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
    assert!(matches!(
        all([b'x'; 2048].as_slice()),
        Err(ArchiveError::Malformed(_))
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_pieces_in_which_it_arrives_do_not_matter(
        sizes in proptest::collection::vec(0_usize..1500, 1..6),
        piece in 1_usize..900,
        packed in any::<bool>(),
    ) {
        let contents: Vec<(String, Vec<u8>)> = sizes
            .iter()
            .enumerate()
            .map(|(number, size)| (format!("f{number}"), vec![u8::try_from(number).unwrap(); *size]))
            .collect();
        let files: Vec<(&str, &[u8])> = contents.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        let archive = tar(&files);
        let archive = if packed { gzip(&archive) } else { archive };
        prop_assert_eq!(all(InPieces(&archive, piece)).unwrap(), contents);
    }

    #[test]
    fn damaged_archives_never_panic(at in 0_usize..3000, value in any::<u8>(), piece in 1_usize..600) {
        let mut archive = tar(&[("a", &[1; 700]), ("b", b"2")]);
        let at = at % archive.len();
        archive[at] = value;
        let _ = all(InPieces(&archive, piece));
    }
}
